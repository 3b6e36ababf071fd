// SPDX-License-Identifier: Apache-2.0
// Tests the eviction order, and which ranges are kept although there is room.
#include "fetch/recent_ranges.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace leat {
namespace {

constexpr uint64_t kRange = 8 << 20;
constexpr uint64_t kHeld = kRange + kFlightBytes;
constexpr uint64_t kKept = RecentRanges::kReadBytesKept / kHeld;
constexpr auto kYoung = std::chrono::milliseconds(5'000);

class RecentRangesTest : public ::testing::Test {
 protected:
  FlightPtr land(bool read, bool on_disk, bool wanted = true) {
    auto flight = std::make_shared<Flight>(file_, ByteRange{next_++ * kRange, kRange});
    flight->wanted = wanted;
    left_ = ranges_.reserve(kHeld);
    if (read) ranges_.read_through(flight);
    for (FlightPtr& gone : ranges_.settle(flight, on_disk)) left_.push_back(std::move(gone));
    return flight;
  }

  FileRefPtr file_ = std::make_shared<FileRef>();
  Clock::time_point now_;
  RecentRanges ranges_{1 << 30, kYoung, [this] { return now_; }};
  RecentRanges::Evicted left_;
  uint64_t next_ = 0;
};

TEST_F(RecentRangesTest, OfWhatWasReadAndIsOnDiskFewAreKept) {
  const FlightPtr first = land(true, true);
  for (uint64_t i = 1; i < kKept; ++i) {
    land(true, true);
    EXPECT_TRUE(left_.empty()) << i;
  }
  land(true, true);
  ASSERT_EQ(left_.size(), 1u);
  EXPECT_EQ(left_.front(), first);
  EXPECT_EQ(ranges_.bytes(), RecentRanges::kReadBytesKept);
}

TEST_F(RecentRangesTest, WhatWasNotReadStays) {
  for (uint64_t i = 0; i < 3 * kKept; ++i) {
    land(false, true);
    EXPECT_TRUE(left_.empty());
  }
}

TEST_F(RecentRangesTest, WhatThePageStoreHasNotStays) {
  for (uint64_t i = 0; i < 3 * kKept; ++i) {
    land(true, false);
    EXPECT_TRUE(left_.empty());
  }
}

TEST_F(RecentRangesTest, WhatIsReadLaterGoesWithTheNext) {
  std::vector<FlightPtr> flights;
  for (uint64_t i = 0; i < kKept + 2; ++i) flights.push_back(land(false, true));
  for (const FlightPtr& flight : flights) ranges_.read_through(flight);
  land(false, true);
  EXPECT_EQ(left_.size(), 2u);
  EXPECT_TRUE(ranges_.evict(flights.back()));
  EXPECT_FALSE(ranges_.evict(flights.front())) << "it has left";
  land(false, true);
  EXPECT_TRUE(left_.empty());
}

TEST_F(RecentRangesTest, WhatOnlyALoadWantedLeavesOnceItIsOnDisk) {
  const FlightPtr refused = land(false, false, /*wanted=*/false);
  EXPECT_TRUE(left_.empty()) << "the load may try again with it";
  const FlightPtr stored = land(false, true, /*wanted=*/false);
  ASSERT_EQ(left_.size(), 1u);
  EXPECT_EQ(left_.front(), stored);
  EXPECT_FALSE(ranges_.evict(stored));
  EXPECT_EQ(ranges_.bytes(), kHeld);
  EXPECT_TRUE(ranges_.evict(refused));
  EXPECT_EQ(ranges_.bytes(), 0u);
}

TEST_F(RecentRangesTest, WhatIsOnDiskAndNobodyReadsLeavesAfterAWhile) {
  const FlightPtr lacked = land(false, false), stored = land(false, true);
  now_ += kYoung / 2;
  const FlightPtr read = land(true, true), later = land(false, true), read_late = land(false, true);
  ranges_.read_through(read_late);
  EXPECT_TRUE(ranges_.drop_unread().empty());
  now_ += kYoung / 2;
  EXPECT_EQ(ranges_.drop_unread(), RecentRanges::Evicted{stored});
  EXPECT_TRUE(ranges_.any_to_drop());
  now_ += kYoung;
  EXPECT_EQ(ranges_.drop_unread(), RecentRanges::Evicted{later});
  EXPECT_FALSE(ranges_.any_to_drop());
  EXPECT_EQ(ranges_.bytes(), 3 * kHeld);
  for (const FlightPtr& left : {lacked, read, read_late}) EXPECT_TRUE(ranges_.evict(left));
  EXPECT_EQ(ranges_.bytes(), 0u);
}

TEST_F(RecentRangesTest, LookAheadPushesOutWhatIsOnDiskBeforeWhatIsNot) {
  const FlightPtr lacked = land(false, false), stored = land(false, true);
  const uint64_t rest = (1 << 30) - ranges_.bytes();
  RecentRanges::Reservation one = ranges_.try_reserve(rest + 1);
  EXPECT_TRUE(one.granted);
  EXPECT_EQ(one.evicted, RecentRanges::Evicted{stored});
  EXPECT_FALSE(ranges_.try_reserve(kHeld).granted) << "what is left is young";
  now_ += kYoung;
  EXPECT_EQ(ranges_.try_reserve(kHeld).evicted, RecentRanges::Evicted{lacked});
}

}  // namespace
}  // namespace leat
