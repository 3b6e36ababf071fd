// SPDX-License-Identifier: Apache-2.0
// Tests the eviction order, and which ranges are kept although there is room.
#include "fetch/buffer_cache.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace leat {
namespace {

constexpr uint64_t kRange = 8 << 20;
constexpr uint64_t kHeld = kRange + kFlightBytes;
constexpr uint64_t kReadRangesMax = BufferCache::kReadBytesMax / kHeld;
constexpr auto kYoung = std::chrono::milliseconds(5'000);

class BufferCacheTest : public ::testing::Test {
 protected:
  FlightPtr complete(bool read, bool on_disk, bool wanted = true) {
    auto flight = std::make_shared<Flight>(file_, ByteRange{next_++ * kRange, kRange});
    flight->wanted = wanted;
    evicted_ = cache_.reserve(kHeld);
    if (read) cache_.on_fully_read(flight);
    for (FlightPtr& evicted : cache_.on_stored(flight, on_disk))
      evicted_.push_back(std::move(evicted));
    return flight;
  }

  FileRefPtr file_ = std::make_shared<FileRef>();
  Clock::time_point now_;
  BufferCache cache_{1 << 30, kYoung, [this] { return now_; }};
  BufferCache::Evicted evicted_;
  uint64_t next_ = 0;
};

TEST_F(BufferCacheTest, FewReadAndStoredRangesAreKept) {
  const FlightPtr first = complete(true, true);
  for (uint64_t i = 1; i < kReadRangesMax; ++i) {
    complete(true, true);
    EXPECT_TRUE(evicted_.empty()) << i;
  }
  complete(true, true);
  ASSERT_EQ(evicted_.size(), 1u);
  EXPECT_EQ(evicted_.front(), first);
  EXPECT_EQ(cache_.bytes(), BufferCache::kReadBytesMax);
}

TEST_F(BufferCacheTest, UnreadRangesStay) {
  for (uint64_t i = 0; i < 3 * kReadRangesMax; ++i) {
    complete(false, true);
    EXPECT_TRUE(evicted_.empty());
  }
}

TEST_F(BufferCacheTest, UnstoredRangesStay) {
  for (uint64_t i = 0; i < 3 * kReadRangesMax; ++i) {
    complete(true, false);
    EXPECT_TRUE(evicted_.empty());
  }
}

TEST_F(BufferCacheTest, RangesReadLaterAreEvictedNext) {
  std::vector<FlightPtr> flights;
  for (uint64_t i = 0; i < kReadRangesMax + 2; ++i) flights.push_back(complete(false, true));
  for (const FlightPtr& flight : flights) cache_.on_fully_read(flight);
  complete(false, true);
  EXPECT_EQ(evicted_.size(), 2u);
  EXPECT_TRUE(cache_.evict(flights.back()));
  EXPECT_FALSE(cache_.evict(flights.front())) << "it has left";
  complete(false, true);
  EXPECT_TRUE(evicted_.empty());
}

TEST_F(BufferCacheTest, RangeOfALoadIsEvictedOnceStored) {
  const FlightPtr rejected = complete(false, false, /*wanted=*/false);
  EXPECT_TRUE(evicted_.empty()) << "the load may try again with it";
  const FlightPtr stored = complete(false, true, /*wanted=*/false);
  ASSERT_EQ(evicted_.size(), 1u);
  EXPECT_EQ(evicted_.front(), stored);
  EXPECT_FALSE(cache_.evict(stored));
  EXPECT_EQ(cache_.bytes(), kHeld);
  EXPECT_TRUE(cache_.evict(rejected));
  EXPECT_EQ(cache_.bytes(), 0u);
}

TEST_F(BufferCacheTest, UnreadStoredRangeIsEvictedAfterTtl) {
  const FlightPtr lacked = complete(false, false), stored = complete(false, true);
  now_ += kYoung / 2;
  const FlightPtr read = complete(true, true), later = complete(false, true),
                  read_late = complete(false, true);
  cache_.on_fully_read(read_late);
  EXPECT_TRUE(cache_.evict_unread().empty());
  now_ += kYoung / 2;
  EXPECT_EQ(cache_.evict_unread(), BufferCache::Evicted{stored});
  EXPECT_TRUE(cache_.any_to_evict());
  now_ += kYoung;
  EXPECT_EQ(cache_.evict_unread(), BufferCache::Evicted{later});
  EXPECT_FALSE(cache_.any_to_evict());
  EXPECT_EQ(cache_.bytes(), 3 * kHeld);
  for (const FlightPtr& left : {lacked, read, read_late}) EXPECT_TRUE(cache_.evict(left));
  EXPECT_EQ(cache_.bytes(), 0u);
}

TEST_F(BufferCacheTest, PrefetchEvictsStoredRangesFirst) {
  const FlightPtr lacked = complete(false, false), stored = complete(false, true);
  const uint64_t rest = (1 << 30) - cache_.bytes();
  BufferCache::Reservation one = cache_.try_reserve(rest + 1);
  EXPECT_TRUE(one.granted);
  EXPECT_EQ(one.evicted, BufferCache::Evicted{stored});
  EXPECT_FALSE(cache_.try_reserve(kHeld).granted) << "what is left is young";
  now_ += kYoung;
  EXPECT_EQ(cache_.try_reserve(kHeld).evicted, BufferCache::Evicted{lacked});
}

}  // namespace
}  // namespace leat
