// SPDX-License-Identifier: Apache-2.0
// RetryBudget: the retries that one store is given, paid for by its successes. A store that fails
// now and then has each request tried again; one that fails everything is not sent several times
// the load. Thread-safe.
#pragma once

#include <mutex>

namespace leat {

class RetryBudget {
 public:
  // A success earns a fifth of a retry, so in the long run retries are at most 20 % of successes.
  static constexpr double kEarned = 0.2;
  static constexpr double kHeld = 100;

  void earn();
  // Whether a retry may be sent; takes it from the budget.
  bool spend();
  double left() const;

 private:
  mutable std::mutex mutex_;  // leaf
  double tokens_ = kHeld;
};

}  // namespace leat
