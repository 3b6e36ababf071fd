// SPDX-License-Identifier: Apache-2.0
// TokenBucket: a rate limit. Unused tokens gather only for a tenth of a second, so traffic is
// spread and never comes in one burst. A larger amount waits as on a line of that speed and leaves
// no debt: any period of t seconds passes at most (t + 0.1) × rate. Not thread-safe; it has no
// clock and no queue.
#pragma once

#include "runtime/context.h"

namespace leat {

class TokenBucket {
 public:
  // `per_second` zero: no limit. `least` is the minimum capacity, so that a rate of one request in
  // 10 s does not delay an idle client.
  TokenBucket(double per_second, double least) : per_second_(per_second), least_(least) {}

  double per_second() const { return per_second_; }
  // Keeps the gathered tokens. A change from no limit starts with none.
  void set_rate(Clock::time_point now, double per_second);

  // Drops tokens beyond a tenth of a second. Called once for the next request; from then on tokens
  // gather for it.
  void trim(Clock::time_point now);
  // Returns when `amount` is available.
  Clock::time_point ready_at(double amount) const;
  void take(double amount);

 private:
  double per_second_;
  const double least_;
  Clock::time_point empty_at_ = Clock::time_point::min();  // holds rate × (now − empty_at_)
};

}  // namespace leat
