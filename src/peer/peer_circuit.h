// SPDX-License-Identifier: Apache-2.0
// PeerCircuit: whether a worker that did not answer is to be asked again. Closed: it is. Open: it
// is not; each time that a pause is over it is to be tried once, by whoever asked for leave, and
// nothing else goes until that has ended. Bookkeeping alone; thread-safe.
#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>

#include "runtime/context.h"

namespace leat {

struct PeerCircuitOptions {
  // Requests in a row that were not answered. A peer that was found dead opens it at once.
  unsigned failures_max = 3;
  // Of the first pause; each trial in vain doubles it.
  Clock::duration pause_min = std::chrono::milliseconds(100);
  Clock::duration pause_max = std::chrono::seconds(5);
  std::function<Clock::time_point()> now = &Clock::now;
};

class PeerCircuit {
 public:
  explicit PeerCircuit(PeerCircuitOptions options = {}) : options_(std::move(options)) {}

  enum class Leave : uint8_t {
    kAsk,  // it is closed
    kTry,  // it is open, and the caller sees whether it lives: answered() or failed() must follow
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
  // `dead`: it does not answer a ping either, or takes no connection.
  void failed(bool dead) {
    std::lock_guard lock(mutex_);
    if (++failures_ < options_.failures_max && !dead && !open_) return;
    // What was under way when it opened is no trial.
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
  bool trial_ = false;  // one is under way while it is open
  unsigned failures_ = 0;
  Clock::duration pause_{0};
  Clock::time_point try_at_;
};

}  // namespace leat
