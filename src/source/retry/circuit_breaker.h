// SPDX-License-Identifier: Apache-2.0
// CircuitBreaker: detects that a store fails every request, and then admits a
// probe from time to time instead of all requests. Thread-safe. Must outlive its permits.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/shared_promise.h"

namespace leat {

struct CircuitBreakerOptions {
  // Number of consecutive failures that open it, if they span at least `failing_min`.
  unsigned failures = 10;
  Clock::duration failing_min = std::chrono::seconds(2);
  // Time until a probe is admitted; doubles with each failed probe. The maximum bounds how long a
  // recovered store waits for its first request: 5 s, as between two attempts. A probe without a
  // response for `open_max` does not delay the next one.
  Clock::duration open_min = std::chrono::seconds(1);
  Clock::duration open_max = std::chrono::seconds(5);
};

class CircuitBreaker {
 public:
  using Event = std::shared_ptr<SharedPromise<bool>>;

  struct OpenState {
    Clock::duration failing_for;    // since the first failure after the last answer
    Clock::duration next_probe_in;  // until the next probe is admitted
    Status last;                    // the last failure
    Event changed;                  // set when the circuit closes or the next probe may be
                                    // admitted
  };

  // Permission for one request. Report the outcome at most once. If the caller gives up without
  // reporting, the breaker ignores the attempt.
  class Permit {
   public:
    Permit(Permit&& other) noexcept
        : breaker_(std::exchange(other.breaker_, nullptr)), probe_(other.probe_) {}
    Permit& operator=(Permit&&) = delete;
    ~Permit() {
      if (breaker_ != nullptr) breaker_->end_probe(probe_);
    }

    bool is_probe() const { return probe_ != 0; }
    // Reports a response of the store, also an error response. Returns true if this closed the
    // circuit.
    bool responded() { return std::exchange(breaker_, nullptr)->responded(); }
    // Reports a failure. Returns true if this opened the circuit.
    bool failed(Clock::time_point now, const Status& why) {
      return std::exchange(breaker_, nullptr)->failed(now, probe_, why);
    }

   private:
    friend class CircuitBreaker;
    Permit(CircuitBreaker* circuit, uint64_t probe) : breaker_(circuit), probe_(probe) {}

    CircuitBreaker* breaker_;
    uint64_t probe_;  // zero: not a probe
  };

  explicit CircuitBreaker(CircuitBreakerOptions options) : options_(options) {}

  std::expected<Permit, OpenState> admit(Clock::time_point now);
  // Returns what admit() would, without taking a permit.
  std::optional<OpenState> open_state(Clock::time_point now) const;

 private:
  std::optional<OpenState> open_state_locked(Clock::time_point now) const;
  bool responded();
  bool failed(Clock::time_point now, uint64_t probe, const Status& why);
  void end_probe(uint64_t probe);

  const CircuitBreakerOptions options_;
  mutable std::mutex mutex_;  // leaf
  unsigned failures_ = 0;     // in a row
  Clock::time_point failing_since_;
  bool open_ = false;
  Clock::duration open_for_{};
  Clock::time_point probe_at_;  // of the next probe
  uint64_t probes_ = 0;         // admitted since the start; the number of the newest
  Event changed_ = SharedPromise<bool>::make();
  Status last_{StatusCode::kUnavailable, ""};
};

}  // namespace leat
