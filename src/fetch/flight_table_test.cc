// SPDX-License-Identifier: Apache-2.0
#include "fetch/flight_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace leat {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr FlightTable::ClaimLimits kLimits{.flight_bytes_max = kMiB, .flights_max = 16};

FileRefPtr file(std::string key = "k") {
  return std::make_shared<FileRef>(
      FileRef::make({}, std::move(key), Version::etag("\"1\""), 64 * kMiB));
}

FlightTable::Claim claim(FlightTable& table, const FileRefPtr& of, ByteRange range) {
  auto claimed = table.claim(of, range, {range}, std::nullopt, kLimits);
  EXPECT_TRUE(claimed);
  return claimed ? *std::move(claimed) : FlightTable::Claim{};
}

// The page store answered "missing" before the flight ended. The bytes may have been cached and
// evicted from memory since, so a claim by that answer would fetch them a second time.
TEST(FlightTable, ClaimFailsAfterAFlightOfItsShardEnded) {
  FlightTable table;
  const FileRefPtr of = file();
  auto first = claim(table, of, {0, kMiB});
  const FlightTable::Lookup before = table.lookup(of->id, {0, 2 * kMiB});
  ASSERT_THAT(first.started, SizeIs(1));
  table.remove(first.started.front());
  const ByteRange range{0, 2 * kMiB};
  EXPECT_FALSE(table.claim(of, range, {range}, before.generation, kLimits));
  EXPECT_EQ(table.files(), 0u);
  uint64_t now = 0;
  EXPECT_FALSE(table.covers(of->id, range, &now));
  EXPECT_NE(now, before.generation);
  EXPECT_EQ(now, table.lookup(of->id, range).generation);
  EXPECT_TRUE(table.claim(of, range, {range}, now, kLimits));
}

TEST(FlightTable, AClaimHoldsWhileNoFlightHasEnded) {
  FlightTable table;
  const FileRefPtr of = file();
  const FlightTable::Lookup before = table.lookup(of->id, {0, kMiB});
  claim(table, of, {4 * kMiB, kMiB});
  // Removing a flight that is not in the table changes nothing.
  table.remove(std::make_shared<Flight>(of, ByteRange{0, kMiB}));
  EXPECT_TRUE(table.claim(of, {0, kMiB}, {{0, kMiB}}, before.generation, kLimits));
}

TEST(FlightTable, ClaimsStartFlightsForGapsOnly) {
  FlightTable table;
  const FileRefPtr of = file();
  auto first = claim(table, of, {kMiB, kMiB});
  auto second = claim(table, of, {0, 3 * kMiB});
  ASSERT_THAT(second.started, SizeIs(2));
  EXPECT_EQ(second.started[0]->range, (ByteRange{0, kMiB}));
  EXPECT_EQ(second.started[1]->range, (ByteRange{2 * kMiB, kMiB}));
  ASSERT_THAT(second.parts, SizeIs(3));
  EXPECT_EQ(second.parts[1].reader.flight(), first.started.front());
  for (const ReadPart& part : second.parts) EXPECT_TRUE(part.in_flight());
  uint64_t generation = 0;
  EXPECT_TRUE(table.covers(of->id, {0, 3 * kMiB}, &generation));
  EXPECT_FALSE(table.covers(of->id, {0, 3 * kMiB + 1}, &generation));
}

TEST(FlightTable, AClaimStartsNoMoreFlightsThanItsLimits) {
  FlightTable table;
  const FileRefPtr of = file();
  const ByteRange range{0, 10 * kMiB};
  auto claimed =
      table.claim(of, range, {range}, std::nullopt, {.flight_bytes_max = kMiB, .flights_max = 3});
  ASSERT_TRUE(claimed);
  EXPECT_THAT(claimed->started, SizeIs(3));
  ASSERT_THAT(claimed->parts, SizeIs(4));
  EXPECT_TRUE(claimed->parts.back().not_in_memory());
  EXPECT_EQ(claimed->parts.back().range, (ByteRange{3 * kMiB, 7 * kMiB}));
}

TEST(FlightTable, AClaimOfNothingLeavesNoFile) {
  FlightTable table;
  const FileRefPtr of = file();
  EXPECT_TRUE(table.claim(of, {}, {}, std::nullopt, kLimits));
  EXPECT_EQ(table.files(), 0u);
}

TEST(FlightTable, FlightsOfOtherFilesAreNotSeen) {
  FlightTable table;
  const FileRefPtr a = file("a"), b = file("b");
  auto of_a = claim(table, a, {0, kMiB});
  auto of_b = claim(table, b, {0, kMiB});
  EXPECT_EQ(table.files(), 2u);
  EXPECT_THAT(table.of(a->id), ElementsAre(of_a.started.front()));
  EXPECT_THAT(table.all(), SizeIs(2));
  table.remove(of_a.started.front());
  EXPECT_EQ(table.files(), 1u);
  EXPECT_THAT(table.of(a->id), SizeIs(0));
  EXPECT_TRUE(table.lookup(a->id, {0, kMiB}).parts.front().not_in_memory());
}

TEST(FlightTable, FlightIsDeliveredWhenAllBlocksAre) {
  FlightTable table;
  const FileRefPtr of = file();
  const uint64_t size = 2 * kBlockBytes + 10;
  const FlightPtr flight = claim(table, of, {0, size}).started.front();
  EXPECT_FALSE(table.mark_delivered(flight, {0, kBlockBytes}));
  EXPECT_FALSE(table.mark_delivered(flight, {0, kBlockBytes}));
  // A block counts when its last byte is delivered; the second block lacks it.
  EXPECT_FALSE(table.mark_delivered(flight, {kBlockBytes, kBlockBytes - 1}));
  EXPECT_FALSE(table.mark_delivered(flight, {2 * kBlockBytes, 10}));
  EXPECT_TRUE(table.mark_delivered(flight, {2 * kBlockBytes - 1, 1}));
  // Reported once.
  EXPECT_FALSE(table.mark_delivered(flight, {0, size}));
}

TEST(FlightTable, FlightOfAnySizeIsDeliveredAtOnce) {
  FlightTable table;
  for (uint64_t blocks = 1; blocks <= 16; ++blocks) {
    const FileRefPtr of = file(std::to_string(blocks));
    const ByteRange whole{0, blocks * kBlockBytes};
    const FlightPtr flight = claim(table, of, whole).started.front();
    EXPECT_TRUE(table.mark_delivered(flight, whole)) << blocks;
    EXPECT_EQ(flight->blocks_delivered, blocks);
  }
}

}  // namespace
}  // namespace leat
