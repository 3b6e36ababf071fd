// SPDX-License-Identifier: Apache-2.0
#include "peer/replication/hot_stripe_tracker.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kRead = 1 << 20;

class HotStripeTrackerTest : public ::testing::Test {
 protected:
  HotStripeTrackerTest() {
    options_.hot_stripe_bandwidth = 100 * kRead;
    options_.read_bytes = 0;
    options_.now = [this] { return now_; };
    tracker_ = std::make_unique<HotStripeTracker>(options_);
  }

  // Reads at `reads_s` for `time`, split among the replicas; returns the last hint.
  uint32_t read(uint64_t stripe, int reads_s, Clock::duration time, uint32_t least = 1) {
    uint32_t replicas = std::max(said_, least);
    for (Clock::duration passed{0}; passed < time; passed += milliseconds(10)) {
      now_ += milliseconds(10);
      part_ += reads_s / 100.0 / replicas;
      for (; part_ >= 1; part_ -= 1) replicas = tracker_->record({stripe}, kRead, least);
    }
    return said_ = replicas;
  }

  Clock::time_point now_{seconds(1'000)};
  HotStripeTrackerOptions options_;
  std::unique_ptr<HotStripeTracker> tracker_;
  double part_ = 0;
  uint32_t said_ = 1;
};

TEST_F(HotStripeTrackerTest, WhatIsReadLittleHasOne) {
  EXPECT_EQ(read(1, 80, seconds(60)), 1u);
  EXPECT_EQ(tracker_->hot_stripes(), 0u);
}

TEST_F(HotStripeTrackerTest, AsManyAsItTakesForNoneToServeMore) {
  EXPECT_EQ(read(1, 180, seconds(30)), 2u);
  EXPECT_EQ(tracker_->hot_stripes(), 1u);
  EXPECT_EQ(read(1, 180, seconds(60)), 2u) << "and it stays so";
  EXPECT_EQ(read(1, 290, seconds(30)), 3u);
  EXPECT_EQ(read(1, 5'000, seconds(30)), 4u);
}

TEST_F(HotStripeTrackerTest, LosesThemOneByOneWhenItCools) {
  EXPECT_EQ(read(1, 380, seconds(30)), 4u);
  EXPECT_EQ(read(1, 200, seconds(60)), 4u) << "three would have two thirds of what is hot each";
  EXPECT_EQ(read(1, 140, seconds(60)), 3u);
  EXPECT_EQ(read(1, 90, seconds(60)), 2u);
  EXPECT_EQ(read(1, 40, seconds(60)), 1u);
  EXPECT_EQ(tracker_->hot_stripes(), 0u);
}

TEST_F(HotStripeTrackerTest, AfterAPauseItIsAsIfItHadNeverBeen) {
  EXPECT_EQ(read(1, 380, seconds(30)), 4u);
  now_ += seconds(60);
  EXPECT_EQ(tracker_->record({1}, kRead), 1u);
}

TEST_F(HotStripeTrackerTest, PolicyIsTheLeast) {
  EXPECT_EQ(read(1, 10, seconds(10), 2), 2u);
  EXPECT_EQ(read(1, 380, seconds(30), 2), 4u);
  EXPECT_EQ(read(1, 1, seconds(60), 2), 2u);
}

TEST_F(HotStripeTrackerTest, WhatIsASmallPartOfTheLoadIsNotSpread) {
  for (int i = 0; i < 3'000; ++i) {
    now_ += milliseconds(10);
    // Eight stripes with 150 reads a second each.
    for (uint64_t read = 0; read < 12; ++read) {
      EXPECT_EQ(tracker_->record({read % 8}, kRead), 1u) << i;
    }
  }
}

TEST_F(HotStripeTrackerTest, AHotOneIsSeenAmongMoreThanAreRemembered) {
  uint64_t other = 1'000;
  uint32_t replicas = 0;
  for (int i = 0; i < 3'000; ++i) {
    now_ += milliseconds(10);
    // One stripe with 500 reads a second, and nearly as many reads of stripes that are read once.
    for (int read = 0; read < 9; ++read) {
      const bool hot = read % 2 == 0;
      if (hot) replicas = tracker_->record({1}, kRead);
      if (!hot) EXPECT_EQ(tracker_->record({++other}, kRead), 1u) << "what took another's place";
    }
  }
  EXPECT_GT(replicas, 1u);
  EXPECT_EQ(tracker_->hot_stripes(), 1u);
}

TEST_F(HotStripeTrackerTest, NothingIsHotWhereThatIsNotWanted) {
  options_.hot_stripe_bandwidth = 0;
  tracker_ = std::make_unique<HotStripeTracker>(options_);
  EXPECT_EQ(read(1, 5'000, seconds(10)), 1u);
  EXPECT_EQ(read(1, 5'000, seconds(10), 2), 2u);
}

TEST_F(HotStripeTrackerTest, SmallReadsCountWhatTheyCost) {
  options_.read_bytes = 64 << 10;
  tracker_ = std::make_unique<HotStripeTracker>(options_);
  uint32_t replicas = 0;
  for (int i = 0; i < 30 * 2'000; ++i) {
    now_ += std::chrono::microseconds(500);
    replicas = tracker_->record({1}, 1);
  }
  EXPECT_GE(replicas, 2u) << "2,000 reads of a byte a second are 125 MiB/s";
}

}  // namespace
}  // namespace leat
