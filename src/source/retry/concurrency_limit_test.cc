// SPDX-License-Identifier: Apache-2.0
#include "source/retry/concurrency_limit.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using namespace std::chrono_literals;

class ConcurrencyLimitTest : public ::testing::Test {
 protected:
  void seconds(int count, Clock::duration first_byte) {
    for (int i = 0; i < count * 10; ++i, now_ += 100ms) concurrency_.responded(now_, first_byte);
  }

  Clock::time_point now_{1000h};
  ConcurrencyLimit concurrency_{4, 64};
};

TEST_F(ConcurrencyLimitTest, BeginsAtTheMost) {
  EXPECT_EQ(concurrency_.limit(now_), 64u);
}

TEST_F(ConcurrencyLimitTest, ShrinksWhileFirstBytesAreSlow) {
  seconds(5, 50ms);
  seconds(6, 500ms);
  EXPECT_LE(concurrency_.limit(now_), 42u);
  EXPECT_GE(concurrency_.limit(now_), 32u);
  seconds(40, 500ms);
  EXPECT_EQ(concurrency_.limit(now_), 4u) << "the least";
}

TEST_F(ConcurrencyLimitTest, WidensByOneASecondWhenTheyAreNot) {
  seconds(5, 50ms);
  seconds(20, 500ms);
  unsigned shrunk = concurrency_.limit(now_);
  seconds(10, 50ms);  // the smoothed value needs some of them to fall
  EXPECT_GE(concurrency_.limit(now_), shrunk);
  shrunk = concurrency_.limit(now_);
  seconds(10, 50ms);
  EXPECT_EQ(concurrency_.limit(now_), shrunk + 10);
  now_ += 1h;
  EXPECT_EQ(concurrency_.limit(now_), 64u) << "quiet as well";
}

TEST_F(ConcurrencyLimitTest, ATwofoldOrAFewMillisecondsAreNothing) {
  seconds(5, 50ms);
  seconds(30, 95ms);
  EXPECT_EQ(concurrency_.limit(now_), 64u);
  ConcurrencyLimit local(4, 64);
  for (int i = 0; i < 300; ++i, now_ += 100ms) local.responded(now_, i < 50 ? 1ms : 15ms);
  EXPECT_EQ(local.limit(now_), 64u);
}

TEST_F(ConcurrencyLimitTest, WhatWasFastAMinuteAgoIsForgotten) {
  seconds(5, 50ms);
  seconds(70, 500ms);
  unsigned shrunk = concurrency_.limit(now_);
  seconds(20, 500ms);
  EXPECT_EQ(concurrency_.limit(now_), shrunk + 20);
}

}  // namespace
}  // namespace leat
