// SPDX-License-Identifier: Apache-2.0
// What leaves memory first, and what of it is kept although there is room.
#include "fetch/recent_ranges.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace leat {
namespace {

constexpr uint64_t kRange = 8 << 20;
constexpr uint64_t kKept = RecentRanges::kReadBytesKept / kRange;

class RecentRangesTest : public ::testing::Test {
 protected:
  FlightPtr land(bool read, bool on_disk) {
    auto flight = std::make_shared<Flight>(file_, ByteRange{next_++ * kRange, kRange});
    left_ = ranges_.reserve(kRange);
    if (read) ranges_.read_through(flight);
    for (FlightPtr& gone : ranges_.settle(flight, on_disk)) left_.push_back(std::move(gone));
    return flight;
  }

  FileRefPtr file_ = std::make_shared<FileRef>();
  RecentRanges ranges_{1 << 30, [] { return Clock::time_point(); }};
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

}  // namespace
}  // namespace leat
