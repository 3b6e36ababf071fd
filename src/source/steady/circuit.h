// SPDX-License-Identifier: Apache-2.0
// Circuit: notices that a store fails everything, and then lets one request through now and again
// instead of all of them. Thread-safe. Must outlive its passes.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/shared_result.h"

namespace leat {

struct CircuitOptions {
  // It opens after so many failures in a row, if they span at least `failing_min`.
  unsigned failures = 10;
  Clock::duration failing_min = std::chrono::seconds(2);
  // How long it stays open before a probe is let through; doubles with each that fails. The longest
  // is what a healed store waits for its first request: 5 s, as between two attempts. A probe that
  // gets no answer for `open_max` does not hold up the next one.
  Clock::duration open_min = std::chrono::seconds(1);
  Clock::duration open_max = std::chrono::seconds(5);
};

class Circuit {
 public:
  using Event = std::shared_ptr<SharedResult<bool>>;

  struct Refusal {
    Clock::duration failing_for;     // since the first failure after the last answer
    Clock::duration asked_again_in;  // until the next probe may go
    Status last;                     // what failed last
    Event changed;                   // set when the circuit closes, or the next probe may go now
  };

  // Permission for one request. Report the outcome at most once. If the caller gives up without
  // reporting, the breaker ignores the attempt.
  class Pass {
   public:
    Pass(Pass&& other) noexcept
        : circuit_(std::exchange(other.circuit_, nullptr)), probe_(other.probe_) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (circuit_ != nullptr) circuit_->leave(probe_);
    }

    bool is_probe() const { return probe_ != 0; }
    // The store answered, be it with a refusal. True if this closed the circuit.
    bool answered() { return std::exchange(circuit_, nullptr)->answered(); }
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
  bool answered();
  bool failed(Clock::time_point now, uint64_t probe, const Status& why);
  void leave(uint64_t probe);

  const CircuitOptions options_;
  mutable std::mutex mutex_;  // leaf
  unsigned failures_ = 0;     // in a row
  Clock::time_point failing_since_;
  bool open_ = false;
  Clock::duration open_for_{};
  Clock::time_point probe_at_;  // the next one
  uint64_t probes_ = 0;         // let through since the start; the number of the newest
  Event changed_ = SharedResult<bool>::make();
  Status last_{StatusCode::kUnavailable, ""};
};

}  // namespace leat
