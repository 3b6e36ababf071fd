// SPDX-License-Identifier: Apache-2.0
#include "source/retry/retry_budget.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

TEST(RetryBudget, FiveSuccessesPayForARetry) {
  RetryBudget budget;
  while (budget.spend()) {
  }
  for (int i = 0; i < 4; ++i) {
    budget.earn();
    EXPECT_FALSE(budget.spend());
  }
  budget.earn();
  budget.earn();  // 0.2 five times is a little less than 1
  EXPECT_TRUE(budget.spend());
  EXPECT_FALSE(budget.spend());
}

TEST(RetryBudget, HoldsNoMoreThanItsMost) {
  RetryBudget budget;
  for (int i = 0; i < 10'000; ++i) budget.earn();
  EXPECT_EQ(budget.left(), RetryBudget::kTokensMax);
  int retries = 0;
  while (budget.spend()) ++retries;
  EXPECT_EQ(retries, 100);
}

}  // namespace
}  // namespace leat
