// SPDX-License-Identifier: Apache-2.0
// Circuit: notices that a store fails everything, and then lets one request through now and again
// instead of all of them. Thread-safe. Must outlive its passes.
#pragma once

#include <cstdint>
#include <expected>
#include <mutex>
#include <optional>

#include "base/status.h"
#include "runtime/context.h"

namespace leat {

struct CircuitOptions {
  // It opens after so many failures in a row, if they span at least `failing_min`.
  unsigned failures = 10;
  Clock::duration failing_min = std::chrono::seconds(2);
  // How long it stays open before one request is let through; doubles with each that fails. The
  // longest is what a healed store waits for its first request: 5 s, as between two attempts.
  Clock::duration open_min = std::chrono::seconds(1);
  Clock::duration open_max = std::chrono::seconds(5);
};

class Circuit {
 public:
  struct Refusal {
    Clock::duration failing_for;     // since the first failure after the last answer
    Clock::duration asked_again_in;  // zero: a request is on its way to find out
    Status last;                     // what failed last
  };

  // Leave to ask the store once. Says how it went at most once; nothing said (the caller gave up)
  // counts for neither side.
  class Pass {
   public:
    Pass(Pass&& other) noexcept
        : circuit_(std::exchange(other.circuit_, nullptr)), probe_(other.probe_) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (circuit_ != nullptr) circuit_->leave(probe_);
    }

    // The store answered, be it with a refusal.
    void answered() { std::exchange(circuit_, nullptr)->answered(); }
    // True if this opened the circuit.
    bool failed(Clock::time_point now, const Status& why) {
      return std::exchange(circuit_, nullptr)->failed(now, probe_, why);
    }

   private:
    friend class Circuit;
    Pass(Circuit* circuit, uint64_t probe) : circuit_(circuit), probe_(probe) {}

    Circuit* circuit_;
    uint64_t probe_;  // zero: not a probe
  };

  explicit Circuit(CircuitOptions options) : options_(options) {}

  std::expected<Pass, Refusal> admit(Clock::time_point now);
  // What admit() would answer, without taking a pass.
  std::optional<Refusal> refusal(Clock::time_point now) const;

 private:
  std::optional<Refusal> refusal_locked(Clock::time_point now) const;
  void answered();
  bool failed(Clock::time_point now, uint64_t probe, const Status& why);
  void leave(uint64_t probe);

  const CircuitOptions options_;
  mutable std::mutex mutex_;  // leaf
  unsigned failures_ = 0;     // in a row
  Clock::time_point failing_since_;
  bool open_ = false;
  Clock::duration open_for_{};
  Clock::time_point probe_at_;
  uint64_t probe_ = 0;  // the one under way
  uint64_t probes_ = 0;
  Status last_{StatusCode::kUnavailable, ""};
};

}  // namespace leat
