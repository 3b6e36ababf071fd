// SPDX-License-Identifier: Apache-2.0
#include "source/steady/latency_window.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using namespace std::chrono_literals;

class LatencyWindowTest : public ::testing::Test {
 protected:
  void seconds(int count, Clock::duration first_byte) {
    for (int i = 0; i < count * 10; ++i, now_ += 100ms) window_.answered(now_, first_byte);
  }

  Clock::time_point now_{1000h};
  LatencyWindow window_{4, 64};
};

TEST_F(LatencyWindowTest, BeginsAtTheMost) {
  EXPECT_EQ(window_.size(now_), 64u);
}

TEST_F(LatencyWindowTest, ShrinksByATenthASecondWhileFirstBytesAreSlow) {
  seconds(5, 50ms);
  seconds(6, 500ms);
  EXPECT_LE(window_.size(now_), 42u);
  EXPECT_GE(window_.size(now_), 32u);
  seconds(40, 500ms);
  EXPECT_EQ(window_.size(now_), 4u) << "the least";
}

TEST_F(LatencyWindowTest, WidensByOneASecondWhenTheyAreNot) {
  seconds(5, 50ms);
  seconds(20, 500ms);
  unsigned shrunk = window_.size(now_);
  seconds(10, 50ms);  // the smoothed value needs some of them to fall
  EXPECT_GE(window_.size(now_), shrunk);
  shrunk = window_.size(now_);
  seconds(10, 50ms);
  EXPECT_EQ(window_.size(now_), shrunk + 10);
  now_ += 1h;
  EXPECT_EQ(window_.size(now_), 64u) << "quiet as well";
}

TEST_F(LatencyWindowTest, ATwofoldOrAFewMillisecondsAreNothing) {
  seconds(5, 50ms);
  seconds(30, 95ms);
  EXPECT_EQ(window_.size(now_), 64u);
  LatencyWindow local(4, 64);
  for (int i = 0; i < 300; ++i, now_ += 100ms) local.answered(now_, i < 50 ? 1ms : 15ms);
  EXPECT_EQ(local.size(now_), 64u);
}

TEST_F(LatencyWindowTest, WhatWasFastAMinuteAgoIsForgotten) {
  seconds(5, 50ms);
  seconds(70, 500ms);
  unsigned shrunk = window_.size(now_);
  seconds(20, 500ms);
  EXPECT_EQ(window_.size(now_), shrunk + 20);
}

}  // namespace
}  // namespace leat
