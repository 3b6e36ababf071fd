// SPDX-License-Identifier: Apache-2.0
// PeerCircuit: circuit breaker of one worker. Closed: requests go. Open: none go; after each pause
// one caller of leave() makes a single trial. Bookkeeping only; thread-safe.
#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>

#include "runtime/context.h"

namespace leat {

struct PeerCircuitOptions {
  // Consecutive requests without an answer that open it. A worker found dead opens it at once.
  unsigned failures_max = 3;
  // Back-off; doubles with each failed trial.
  Clock::duration pause_min = std::chrono::milliseconds(100);
  Clock::duration pause_max = std::chrono::seconds(5);
  std::function<Clock::time_point()> now = &Clock::now;
};

class PeerCircuit {
 public:
  explicit PeerCircuit(PeerCircuitOptions options = {}) : options_(std::move(options)) {}

  enum class Leave : uint8_t {
    kAsk,  // closed
    kTry,  // open; the caller makes the trial and must call answered() or failed()
    kNo,
  };
  Leave leave() {
    std::lock_guard lock(mutex_);
    if (!open_) return Leave::kAsk;
    if (trial_ || options_.now() < try_at_) return Leave::kNo;
    trial_ = true;
    return Leave::kTry;
  }
  void answered() {
    std::lock_guard lock(mutex_);
    open_ = trial_ = false;
    failures_ = 0;
    pause_ = Clock::duration(0);
  }
  // `dead`: the worker did not answer a ping either, or refuses connections.
  void failed(bool dead) {
    std::lock_guard lock(mutex_);
    if (++failures_ < options_.failures_max && !dead && !open_) return;
    // A request that was in flight when the circuit opened is no trial.
    if (open_ && !std::exchange(trial_, false)) return;
    open_ = true;
    pause_ = std::clamp(pause_ * 2, options_.pause_min, options_.pause_max);
    try_at_ = options_.now() + pause_;
  }
  bool open() const {
    std::lock_guard lock(mutex_);
    return open_;
  }

 private:
  const PeerCircuitOptions options_;
  mutable std::mutex mutex_;  // leaf
  bool open_ = false;
  bool trial_ = false;  // a trial is in flight while open
  unsigned failures_ = 0;
  Clock::duration pause_{0};
  Clock::time_point try_at_;
};

}  // namespace leat
