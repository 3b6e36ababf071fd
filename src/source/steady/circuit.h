// SPDX-License-Identifier: Apache-2.0
// Circuit: a circuit breaker. It detects that a store fails every request, and then admits a
// probe from time to time instead of all requests. Thread-safe. Must outlive its passes.
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
  // Number of consecutive failures that open it, if they span at least `failing_min`.
  unsigned failures = 10;
  Clock::duration failing_min = std::chrono::seconds(2);
  // Time until a probe is admitted; doubles with each failed probe. The maximum bounds how long a
  // recovered store waits for its first request: 5 s, as between two attempts. A probe without a
  // response for `open_max` does not delay the next one.
  Clock::duration open_min = std::chrono::seconds(1);
  Clock::duration open_max = std::chrono::seconds(5);
};

class Circuit {
 public:
  using Event = std::shared_ptr<SharedResult<bool>>;

  struct Refusal {
    Clock::duration failing_for;     // since the first failure after the last answer
    Clock::duration asked_again_in;  // until the next probe is admitted
    Status last;                     // the last failure
    Event changed;                   // set when the circuit closes or the next probe may be
                                     // admitted
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
    // Reports a response of the store, also an error response. Returns true if this closed the
    // circuit.
    bool answered() { return std::exchange(circuit_, nullptr)->answered(); }
    // Reports a failure. Returns true if this opened the circuit.
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
  // Returns what admit() would, without taking a pass.
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
  Clock::time_point probe_at_;  // of the next probe
  uint64_t probes_ = 0;         // admitted since the start; the number of the newest
  Event changed_ = SharedResult<bool>::make();
  Status last_{StatusCode::kUnavailable, ""};
};

}  // namespace leat
