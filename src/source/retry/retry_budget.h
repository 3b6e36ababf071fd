// SPDX-License-Identifier: Apache-2.0
// RetryBudget: the retries that one store may get, earned by its successes. If a store fails now
// and then, each request is retried; if it fails everything, retries do not multiply its load.
// Thread-safe.
#pragma once

#include <mutex>

namespace leat {

class RetryBudget {
 public:
  // A success earns a fifth of a retry, so in the long run retries are at most 20 % of successes.
  static constexpr double kEarnedPerSuccess = 0.2;
  static constexpr double kTokensMax = 100;

  void earn();
  // Takes a retry from the budget. Returns whether it may be sent.
  bool spend();
  double left() const;

 private:
  mutable std::mutex mutex_;  // leaf
  double tokens_ = kTokensMax;
};

}  // namespace leat
