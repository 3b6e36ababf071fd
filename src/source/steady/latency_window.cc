// SPDX-License-Identifier: Apache-2.0
#include "source/steady/latency_window.h"

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

LatencyWindow::LatencyWindow(unsigned size_min, unsigned size_max)
    : min_(size_min), max_(size_max), size_(size_max) {
  LEAT_CHECK(1 <= min_ && min_ <= max_);
}

void LatencyWindow::answered(Clock::time_point now, Clock::duration first_byte) {
  (void)size(now);
  sum_ += Seconds(first_byte).count();
  ++count_;
}

unsigned LatencyWindow::size(Clock::time_point now) {
  int64_t second = now.time_since_epoch() / std::chrono::seconds(1);
  if (second_ < 0) second_ = second;
  if (second <= second_) return size_;
  end_second(second_);
  // Seconds without a response do not count as loaded.
  uint64_t idle = static_cast<uint64_t>(second - second_ - 1);
  size_ = static_cast<unsigned>(std::min<uint64_t>(size_ + idle, max_));
  second_ = second;
  return size_;
}

double LatencyWindow::lowest(int64_t second) const {
  double lowest = smoothed_;
  for (const Past& past : past_) {
    if (past.second < 0 || past.second <= second - kRemembered) continue;
    lowest = std::min(lowest, past.smoothed);
  }
  return lowest;
}

void LatencyWindow::end_second(int64_t second) {
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
  size_ = grown ? std::max(min_, size_ - std::max(1u, size_ / 10)) : std::min(size_ + 1, max_);
}

}  // namespace leat
