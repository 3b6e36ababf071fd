// SPDX-License-Identifier: Apache-2.0
#include "source/retry/concurrency_limit.h"

#include <algorithm>

#include "base/check.h"

namespace leat {
namespace {

using Seconds = std::chrono::duration<double>;

// Weight of each second's mean in the smoothed value: two slow responses are no trend.
constexpr double kNewShare = 0.5;
constexpr double kGrown = 2;
// A smaller difference comes from this machine's threads, not from the store's queue.
constexpr double kGrownSecondsMin = 0.020;

}  // namespace

ConcurrencyLimit::ConcurrencyLimit(unsigned limit_min, unsigned limit_max)
    : min_(limit_min), max_(limit_max), limit_(limit_max) {
  LEAT_CHECK(1 <= min_ && min_ <= max_);
}

void ConcurrencyLimit::responded(Clock::time_point now, Clock::duration first_byte) {
  (void)limit(now);
  sum_ += Seconds(first_byte).count();
  ++count_;
}

unsigned ConcurrencyLimit::limit(Clock::time_point now) {
  int64_t second = now.time_since_epoch() / std::chrono::seconds(1);
  if (second_ < 0) second_ = second;
  if (second <= second_) return limit_;
  end_second(second_);
  // Seconds without a response do not count as loaded.
  uint64_t idle = static_cast<uint64_t>(second - second_ - 1);
  limit_ = static_cast<unsigned>(std::min<uint64_t>(limit_ + idle, max_));
  second_ = second;
  return limit_;
}

double ConcurrencyLimit::lowest(int64_t second) const {
  double lowest = smoothed_;
  for (const Past& past : past_) {
    if (past.second < 0 || past.second <= second - kRemembered) continue;
    lowest = std::min(lowest, past.smoothed);
  }
  return lowest;
}

void ConcurrencyLimit::end_second(int64_t second) {
  bool grown = false;
  if (count_ > 0) {
    double mean = sum_ / static_cast<double>(count_);
    smoothed_ = smoothed_ == 0 ? mean : smoothed_ + kNewShare * (mean - smoothed_);
    past_[static_cast<size_t>(second % kRemembered)] = {second, smoothed_};
    double least = lowest(second);
    grown = smoothed_ > kGrown * least && smoothed_ > least + kGrownSecondsMin;
  }
  sum_ = 0;
  count_ = 0;
  limit_ = grown ? std::max(min_, limit_ - std::max(1u, limit_ / 10)) : std::min(limit_ + 1, max_);
}

}  // namespace leat
