// SPDX-License-Identifier: Apache-2.0
// PeerCircuitBreaker: circuit breaker of one worker. Closed: requests go. Open: none go; after each
// pause one caller of decide() makes a single trial. Bookkeeping only; thread-safe.
#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>

#include "runtime/context.h"

namespace leat {

struct PeerCircuitBreakerOptions {
  // Consecutive requests without an answer that open it. A worker found dead opens it at once.
  unsigned failures_max = 3;
  // Back-off; doubles with each failed trial.
  Clock::duration backoff_min = std::chrono::milliseconds(100);
  Clock::duration backoff_max = std::chrono::seconds(5);
  std::function<Clock::time_point()> now = &Clock::now;
};

class PeerCircuitBreaker {
 public:
  explicit PeerCircuitBreaker(PeerCircuitBreakerOptions options = {})
      : options_(std::move(options)) {}

  enum class Decision : uint8_t {
    kAllow,  // closed
    kTrial,  // open; the caller makes the trial and must call succeeded() or failed()
    kReject,
  };
  Decision decide() {
    std::lock_guard lock(mutex_);
    if (!open_) return Decision::kAllow;
    if (trial_ || options_.now() < retry_at_) return Decision::kReject;
    trial_ = true;
    return Decision::kTrial;
  }
  void succeeded() {
    std::lock_guard lock(mutex_);
    open_ = trial_ = false;
    failures_ = 0;
    backoff_ = Clock::duration(0);
  }
  // `dead`: the worker did not answer a ping either, or refuses connections.
  void failed(bool dead) {
    std::lock_guard lock(mutex_);
    if (++failures_ < options_.failures_max && !dead && !open_) return;
    // A request that was in flight when the circuit opened is no trial.
    if (open_ && !std::exchange(trial_, false)) return;
    open_ = true;
    backoff_ = std::clamp(backoff_ * 2, options_.backoff_min, options_.backoff_max);
    retry_at_ = options_.now() + backoff_;
  }
  bool open() const {
    std::lock_guard lock(mutex_);
    return open_;
  }

 private:
  const PeerCircuitBreakerOptions options_;
  mutable std::mutex mutex_;  // leaf
  bool open_ = false;
  bool trial_ = false;  // a trial is in flight while open
  unsigned failures_ = 0;
  Clock::duration backoff_{0};
  Clock::time_point retry_at_;
};

}  // namespace leat
