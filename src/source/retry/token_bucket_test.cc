// SPDX-License-Identifier: Apache-2.0
#include "source/retry/token_bucket.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr Clock::time_point kStart{1000h};

// Number of transfers of `amount` from `from` until `end`, if more are always queued.
int sent(TokenBucket& bucket, double amount, Clock::time_point from, Clock::time_point end) {
  int count = 0;
  for (Clock::time_point now = from;; ++count) {
    bucket.trim(now);
    now = std::max(now, bucket.ready_at(amount));
    if (now > end) return count;
    bucket.take(amount);
  }
}

TEST(TokenBucket, HoldsItsRateFromTheFirstMoment) {
  for (double rate : {3.0, 100.0, 5000.0}) {
    TokenBucket bucket(rate, 1);
    EXPECT_LE(sent(bucket, 1, kStart, kStart), std::max(1.0, rate / 10)) << rate;
    TokenBucket again(rate, 1);
    EXPECT_NEAR(sent(again, 1, kStart, kStart + 100s), rate * 100, rate * 0.1 + 1) << rate;
  }
}

TEST(TokenBucket, IdleTimeGathersATenthOfASecond) {
  TokenBucket bucket(1000, 1);
  sent(bucket, 1, kStart, kStart + 1s);
  EXPECT_NEAR(sent(bucket, 1, kStart + 1h, kStart + 1h), 100, 1);
}

TEST(TokenBucket, ALargeAmountIsWaitedForAndNotOwed) {
  TokenBucket bucket(10e6, 0);
  bucket.trim(kStart);
  EXPECT_EQ(bucket.ready_at(8e6), kStart + 700ms);
  EXPECT_NEAR(sent(bucket, 8e6, kStart, kStart + 60s), 75, 1);
}

TEST(TokenBucket, ARateBelowOneStillServesTheIdle) {
  TokenBucket bucket(0.1, 1);
  bucket.trim(kStart);
  EXPECT_LE(bucket.ready_at(1), kStart);
  bucket.take(1);
  bucket.trim(kStart);
  EXPECT_EQ(bucket.ready_at(1), kStart + 10s);
}

TEST(TokenBucket, AnotherRateKeepsWhatHasGathered) {
  TokenBucket bucket(100, 1);
  bucket.trim(kStart);  // 10
  bucket.set_rate(kStart, 10);
  EXPECT_LE(bucket.ready_at(10), kStart);
  EXPECT_EQ(bucket.ready_at(11), kStart + 100ms);
}

TEST(TokenBucket, WithoutARateNothingWaits) {
  TokenBucket bucket(0, 1);
  bucket.trim(kStart);
  EXPECT_LE(bucket.ready_at(1e18), kStart);
  bucket.take(1e18);
  bucket.set_rate(kStart, 10);
  EXPECT_EQ(bucket.ready_at(1), kStart + 100ms);
  bucket.set_rate(kStart, 0);
  EXPECT_LE(bucket.ready_at(1e18), kStart);
}

}  // namespace
}  // namespace leat
