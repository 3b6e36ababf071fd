// SPDX-License-Identifier: Apache-2.0
#include "source/retry/first_byte_latency.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using namespace std::chrono_literals;

class FirstByteLatencyTest : public ::testing::Test {
 protected:
  // Advances the time so that no cached result is returned.
  Clock::duration timeout() {
    now_ += 200ms;
    return latency_.timeout(now_);
  }
  void answer(int times, Clock::duration first_byte) {
    for (int i = 0; i < times; ++i) latency_.responded(now_, first_byte);
  }

  Clock::time_point now_{1000h};
  FirstByteLatency latency_{1s, 10s};
};

TEST_F(FirstByteLatencyTest, BeginsAtTheLeast) {
  EXPECT_EQ(timeout(), 1s);
  EXPECT_EQ(latency_.p99(now_), 0s);
}

TEST_F(FirstByteLatencyTest, IsFourTimesTheSlowestBetweenItsLimits) {
  answer(1000, 20ms);
  EXPECT_EQ(timeout(), 1s);
  answer(1000, 500ms);
  EXPECT_GE(timeout(), 2s);
  EXPECT_LE(timeout(), 2400ms);
  answer(1000, 30s);
  EXPECT_EQ(timeout(), 10s);
}

TEST_F(FirstByteLatencyTest, OneInAHundredMayLieAbove) {
  answer(991, 10ms);
  answer(9, 5s);
  EXPECT_GE(latency_.p99(now_), 10ms);
  EXPECT_LE(latency_.p99(now_), 12ms);
  answer(10, 5s);
  EXPECT_GE(latency_.p99(now_), 5s);
}

TEST_F(FirstByteLatencyTest, ForgetsAfterThreeMinutes) {
  answer(100, 2s);
  now_ += 160s;
  EXPECT_GE(timeout(), 8s);
  now_ += 30s;
  EXPECT_EQ(timeout(), 1s);
}

TEST_F(FirstByteLatencyTest, AStoreThatHasJustBecomeSlowIsSlowNow) {
  for (int i = 0; i < 16; ++i) {
    answer(10'000, 20ms);
    now_ += 10s;
  }
  answer(20, 900ms);
  EXPECT_LE(latency_.p99(now_), 30ms);
  now_ += 10s;
  answer(20, 900ms);
  EXPECT_GE(timeout(), 3600ms);
}

TEST_F(FirstByteLatencyTest, OneTimeoutInTenChangesNothing) {
  for (int i = 0; i < 100; ++i) {
    answer(9, 20ms);
    latency_.timed_out(now_);
    ASSERT_EQ(timeout(), 1s);
  }
}

TEST_F(FirstByteLatencyTest, EightTimeoutsInARowAreTheStores) {
  answer(10'000, 20ms);
  for (int i = 0; i < 7; ++i) latency_.timed_out(now_);
  EXPECT_EQ(timeout(), 1s) << "too few to tell";
  latency_.timed_out(now_);
  EXPECT_EQ(timeout(), 10s);
  now_ += 1h;
  EXPECT_EQ(timeout(), 10s) << "nothing else is known";
  answer(1, 2s);
  EXPECT_GE(timeout(), 8s);
}

TEST_F(FirstByteLatencyTest, SoIsMoreThanAThirdInTenSeconds) {
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(timeout(), 1s);
    answer(1, 20ms);
    latency_.timed_out(now_);
  }
  EXPECT_EQ(timeout(), 10s);
  answer(20, 20ms);
  EXPECT_EQ(timeout(), 1s);
}

}  // namespace
}  // namespace leat
