// SPDX-License-Identifier: Apache-2.0
#include "source/retry/token_bucket.h"

#include <algorithm>

namespace leat {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kBurstSeconds = 0.1;

Clock::duration to_duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
}

}  // namespace

void TokenBucket::set_rate(Clock::time_point now, double per_second) {
  if (per_second == per_second_) return;
  if (per_second_ == 0) {
    empty_at_ = now;
  } else if (per_second > 0 && empty_at_ != Clock::time_point::min()) {
    double gathered = std::max(0.0, Seconds(now - empty_at_).count() * per_second_);
    empty_at_ = now - to_duration(gathered / per_second);
  }
  per_second_ = per_second;
}

void TokenBucket::trim(Clock::time_point now) {
  if (per_second_ == 0) return;
  empty_at_ = std::max(empty_at_, now - to_duration(std::max(kBurstSeconds, least_ / per_second_)));
}

Clock::time_point TokenBucket::ready_at(double amount) const {
  if (per_second_ == 0) return Clock::time_point::min();
  return empty_at_ + to_duration(amount / per_second_);
}

void TokenBucket::take(double amount) {
  if (per_second_ > 0) empty_at_ += to_duration(amount / per_second_);
}

}  // namespace leat
