// SPDX-License-Identifier: Apache-2.0
#include "source/steady/first_byte_history.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using namespace std::chrono_literals;

class FirstByteHistoryTest : public ::testing::Test {
 protected:
  // Advances the time so that no cached result is returned.
  Clock::duration bound() {
    now_ += 200ms;
    return history_.bound(now_);
  }
  void answer(int times, Clock::duration first_byte) {
    for (int i = 0; i < times; ++i) history_.answered(now_, first_byte);
  }

  Clock::time_point now_{1000h};
  FirstByteHistory history_{1s, 10s};
};

TEST_F(FirstByteHistoryTest, BeginsAtTheLeast) {
  EXPECT_EQ(bound(), 1s);
  EXPECT_EQ(history_.p99(now_), 0s);
}

TEST_F(FirstByteHistoryTest, IsFourTimesTheSlowestBetweenItsLimits) {
  answer(1000, 20ms);
  EXPECT_EQ(bound(), 1s);
  answer(1000, 500ms);
  EXPECT_GE(bound(), 2s);
  EXPECT_LE(bound(), 2400ms);
  answer(1000, 30s);
  EXPECT_EQ(bound(), 10s);
}

TEST_F(FirstByteHistoryTest, OneInAHundredMayLieAbove) {
  answer(991, 10ms);
  answer(9, 5s);
  EXPECT_GE(history_.p99(now_), 10ms);
  EXPECT_LE(history_.p99(now_), 12ms);
  answer(10, 5s);
  EXPECT_GE(history_.p99(now_), 5s);
}

TEST_F(FirstByteHistoryTest, ForgetsAfterThreeMinutes) {
  answer(100, 2s);
  now_ += 160s;
  EXPECT_GE(bound(), 8s);
  now_ += 30s;
  EXPECT_EQ(bound(), 1s);
}

TEST_F(FirstByteHistoryTest, AStoreThatHasJustBecomeSlowIsSlowNow) {
  for (int i = 0; i < 16; ++i) {
    answer(10'000, 20ms);
    now_ += 10s;
  }
  answer(20, 900ms);
  EXPECT_LE(history_.p99(now_), 30ms);
  now_ += 10s;
  answer(20, 900ms);
  EXPECT_GE(bound(), 3600ms);
}

TEST_F(FirstByteHistoryTest, OneSilenceInTenChangesNothing) {
  for (int i = 0; i < 100; ++i) {
    answer(9, 20ms);
    history_.silent(now_);
    ASSERT_EQ(bound(), 1s);
  }
}

TEST_F(FirstByteHistoryTest, EightSilencesInARowAreTheStores) {
  answer(10'000, 20ms);
  for (int i = 0; i < 7; ++i) history_.silent(now_);
  EXPECT_EQ(bound(), 1s) << "too few to tell";
  history_.silent(now_);
  EXPECT_EQ(bound(), 10s);
  now_ += 1h;
  EXPECT_EQ(bound(), 10s) << "nothing else is known";
  answer(1, 2s);
  EXPECT_GE(bound(), 8s);
}

TEST_F(FirstByteHistoryTest, SoIsMoreThanAThirdInTenSeconds) {
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(bound(), 1s);
    answer(1, 20ms);
    history_.silent(now_);
  }
  EXPECT_EQ(bound(), 10s);
  answer(20, 20ms);
  EXPECT_EQ(bound(), 1s);
}

}  // namespace
}  // namespace leat
