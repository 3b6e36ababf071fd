// SPDX-License-Identifier: Apache-2.0
#include "runtime/bandwidth_limiter.h"

#include <gtest/gtest.h>

#include "runtime/executor.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(BandwidthLimiter, TransfersFollowOneAnother) {
  BandwidthLimiter line(1000);
  const BandwidthLimiter::Reservation first = line.reserve(2000);
  const BandwidthLimiter::Reservation second = line.reserve(500);
  EXPECT_EQ(first.ends - first.begins, seconds(2));
  EXPECT_EQ(second.begins, first.ends);
  EXPECT_EQ(second.ends - second.begins, milliseconds(500));
}

TEST(BandwidthLimiter, UnusedBytesAreReturned) {
  BandwidthLimiter line(1000);
  const BandwidthLimiter::Reservation first = line.reserve(3'600'000);
  line.return_unused(1'800'000);
  EXPECT_EQ(line.reserve(1).begins, first.ends - minutes(30));
}

TEST(BandwidthLimiter, WithoutALimitNothingTakesTime) {
  BandwidthLimiter line(0);
  EXPECT_FALSE(line.limited());
  const BandwidthLimiter::Reservation reservation = line.reserve(UINT64_MAX);
  EXPECT_EQ(reservation.begins, reservation.ends);
  line.return_unused(UINT64_MAX);
  const BandwidthLimiter::Reservation next = line.reserve(1);
  EXPECT_EQ(next.begins, next.ends);
}

TEST(BandwidthLimiter, WaitEndsWithItsContext) {
  Executor executor;
  BandwidthLimiter line(1);
  (void)line.reserve(1'000'000);
  std::stop_source stopping;
  stopping.request_stop();
  const Context context = Context::background().with_cancel(stopping.get_token());
  const Result<> waited = executor.block_on(line.acquire(context, 1));
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace leat
