// SPDX-License-Identifier: Apache-2.0
#include "runtime/bandwidth_line.h"

#include <gtest/gtest.h>

#include "runtime/executor.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(BandwidthLine, PiecesGoOneAfterTheOther) {
  BandwidthLine line(1000);
  const BandwidthLine::Turn first = line.book(2000);
  const BandwidthLine::Turn second = line.book(500);
  EXPECT_EQ(first.ends - first.begins, seconds(2));
  EXPECT_EQ(second.begins, first.ends);
  EXPECT_EQ(second.ends - second.begins, milliseconds(500));
}

TEST(BandwidthLine, WhatDidNotGoMakesRoomForTheNext) {
  BandwidthLine line(1000);
  const BandwidthLine::Turn first = line.book(3'600'000);
  line.give_back(1'800'000);
  EXPECT_EQ(line.book(1).begins, first.ends - minutes(30));
}

TEST(BandwidthLine, WithoutALimitNothingTakesTime) {
  BandwidthLine line(0);
  EXPECT_FALSE(line.limited());
  const BandwidthLine::Turn turn = line.book(UINT64_MAX);
  EXPECT_EQ(turn.begins, turn.ends);
  line.give_back(UINT64_MAX);
  const BandwidthLine::Turn next = line.book(1);
  EXPECT_EQ(next.begins, next.ends);
}

TEST(BandwidthLine, WhoWaitsEndsWithItsContext) {
  Executor executor;
  BandwidthLine line(1);
  (void)line.book(1'000'000);
  std::stop_source stopping;
  stopping.request_stop();
  const Context context = Context::background().with_cancel(stopping.get_token());
  const Result<> waited = executor.wait(line.wait_for_turn(context, 1));
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace leat
