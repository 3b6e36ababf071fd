// SPDX-License-Identifier: Apache-2.0
#include "source/retry/adaptive_rate.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using namespace std::chrono_literals;

class AdaptiveRateTest : public ::testing::Test {
 protected:
  // `per_second` responses for that time, all wanted.
  void accept(Clock::duration duration, int per_second) {
    rate_.set_demand(now_, true);
    const auto end = now_ + duration;
    while ((now_ += std::chrono::nanoseconds(1s) / per_second) <= end) rate_.accepted(now_, 1ms);
    now_ = end;
  }

  Clock::time_point now_{1000h};
  AdaptiveRate rate_;
};

TEST_F(AdaptiveRateTest, NoLimitUntilThrottled) {
  accept(10s, 1000);
  EXPECT_EQ(rate_.limit(now_), 0);
}

TEST_F(AdaptiveRateTest, TheLimitIsWhatWasAcceptedInTheLastSecond) {
  accept(10s, 400);
  accept(1s, 200);
  rate_.throttled(now_);
  EXPECT_NEAR(rate_.limit(now_), 200, 15);
  for (int i = 0; i < 30; ++i) rate_.throttled(now_);
  EXPECT_NEAR(rate_.limit(now_), 200, 15) << "one overload, however many refusals tell of it";
}

TEST_F(AdaptiveRateTest, IdleTimeDoesNotCount) {
  accept(10s, 1000);
  rate_.set_demand(now_, false);
  now_ += 600ms;
  accept(100ms, 200);
  rate_.throttled(now_);
  // 300 ms at 1000 and 100 ms at 200.
  EXPECT_NEAR(rate_.limit(now_), 320.0 / 0.4, 60);
}

TEST_F(AdaptiveRateTest, InitialRejectionsOfABurstDoNotCount) {
  rate_.set_demand(now_, true);
  for (int i = 0; i < 100; ++i, now_ += 2ms) rate_.throttled(now_);
  EXPECT_EQ(rate_.limit(now_), 0) << "nothing was accepted, as nothing can be done so soon";
  for (int i = 0; i < 80; ++i, now_ += 5ms) {
    rate_.accepted(now_, 200ms);
    rate_.throttled(now_);
  }
  EXPECT_NEAR(rate_.limit(now_), 200, 20);
}

TEST_F(AdaptiveRateTest, FewResponsesSetNoLimit) {
  rate_.set_demand(now_, true);
  now_ += 1s;
  for (int i = 0; i < 9; ++i) rate_.throttled(now_);
  EXPECT_EQ(rate_.limit(now_), 0);
  accept(1s, 100);
  rate_.throttled(now_);
  const double cut = rate_.limit(now_);
  now_ += 2s;
  for (int i = 0; i < 9; ++i) rate_.throttled(now_);
  EXPECT_GE(rate_.limit(now_), cut / 2) << "though nothing was accepted in this second";
  EXPECT_LE(rate_.limit(now_), cut / 2 * 1.11);
}

TEST_F(AdaptiveRateTest, GoesDownToASlowStoresRate) {
  accept(1s, 200);
  rate_.throttled(now_);
  for (int i = 0; i < 40; ++i) {
    accept(500ms, 4);
    rate_.throttled(now_);
  }
  EXPECT_NEAR(rate_.limit(now_), 4, 1.1);
}

TEST_F(AdaptiveRateTest, GrowsFasterAfterFiveQuietSeconds) {
  accept(1s, 200);
  rate_.throttled(now_);
  const double cut = rate_.limit(now_);
  now_ += 1s;
  EXPECT_NEAR(rate_.limit(now_) / cut, 1.05, 0.001);
  now_ += 4s;
  const double after_five = rate_.limit(now_);
  EXPECT_NEAR(after_five / cut, 1.276, 0.001);
  now_ += 1s;
  EXPECT_NEAR(rate_.limit(now_) / after_five, 1.5, 0.001);
  now_ += 60s;
  EXPECT_EQ(rate_.limit(now_), 0) << "forgotten";
}

TEST_F(AdaptiveRateTest, IsNeverRaisedByBeingThrottled) {
  accept(1s, 200);
  rate_.throttled(now_);
  const double cut = rate_.limit(now_);
  accept(1s, 1000);  // already in flight
  rate_.throttled(now_);
  EXPECT_LE(rate_.limit(now_), cut * 1.06);
}

}  // namespace
}  // namespace leat
