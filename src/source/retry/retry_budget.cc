// SPDX-License-Identifier: Apache-2.0
#include "source/retry/retry_budget.h"

#include <algorithm>

namespace leat {

void RetryBudget::earn() {
  std::lock_guard lock(mutex_);
  tokens_ = std::min(kTokensMax, tokens_ + kEarnedPerSuccess);
}

bool RetryBudget::spend() {
  std::lock_guard lock(mutex_);
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

double RetryBudget::left() const {
  std::lock_guard lock(mutex_);
  return tokens_;
}

}  // namespace leat
