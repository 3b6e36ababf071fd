// SPDX-License-Identifier: Apache-2.0
// LogRateLimiter: log rate limiter, so that a store that fails ten thousand times a second does not
// fill the log's disk, too. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/context.h"

namespace leat {

class LogRateLimiter {
 public:
  explicit LogRateLimiter(unsigned per_second, std::function<Clock::time_point()> now = &Clock::now)
      : per_second_(per_second), now_(std::move(now)) {}

  // Returns the number of lines suppressed since the last one, if a line may be written now;
  // otherwise nothing.
  std::optional<uint64_t> admit() {
    std::lock_guard lock(mutex_);
    const Clock::time_point now = now_();
    if (now - second_started_ >= std::chrono::seconds(1)) {
      second_started_ = now;
      in_this_second_ = 0;
    }
    if (in_this_second_ >= per_second_) {
      ++suppressed_;
      return std::nullopt;
    }
    ++in_this_second_;
    return std::exchange(suppressed_, 0);
  }

 private:
  const unsigned per_second_;
  const std::function<Clock::time_point()> now_;
  std::mutex mutex_;
  Clock::time_point second_started_{};
  unsigned in_this_second_ = 0;
  uint64_t suppressed_ = 0;
};

}  // namespace leat
