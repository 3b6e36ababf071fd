// SPDX-License-Identifier: Apache-2.0
// TokenBucket: how much of something may be sent, so much a second. What is not used gathers only
// for a tenth of a second, so what it limits is spread and never comes in one burst. An amount
// beyond that is waited for, as on a line of that speed, and not owed afterwards: in any stretch of
// t seconds at most (t + 0.1) × rate goes out. Not thread-safe; it has no clock and no queue.
#pragma once

#include "runtime/context.h"

namespace leat {

class TokenBucket {
 public:
  // `per_second` zero: no limit. `least` is how much gathers in any case, so that a rate of one
  // request in 10 s does not make an idle client wait.
  TokenBucket(double per_second, double least) : per_second_(per_second), least_(least) {}

  double per_second() const { return per_second_; }
  // What has gathered stays. From no limit to one nothing has.
  void set_rate(Clock::time_point now, double per_second);

  // Drops what has gathered beyond a tenth of a second. Once for whoever is next; from then on it
  // gathers for him.
  void settle(Clock::time_point now);
  // When `amount` is there.
  Clock::time_point ready_at(double amount) const;
  void take(double amount);

 private:
  double per_second_;
  const double least_;
  Clock::time_point empty_at_ = Clock::time_point::min();  // holds rate × (now − empty_at_)
};

}  // namespace leat
