// SPDX-License-Identifier: Apache-2.0
#include "fetch/file_flights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace leat {
namespace {

using ::testing::ElementsAre;

FlightPtr flight(uint64_t offset, uint64_t size) {
  auto ref = std::make_shared<FileRef>(FileRef::make({}, "k", Version::etag("\"1\""), 1000));
  return std::make_shared<Flight>(ref, ByteRange{offset, size});
}

TEST(FileFlights, PiecesAreCutWhereFlightsBeginAndEnd) {
  FileFlights flights;
  EXPECT_TRUE(flights.empty());
  EXPECT_THAT(flights.gaps({5, 10}), ElementsAre(ByteRange{5, 10}));
  FlightPtr a = flight(10, 10), b = flight(20, 5), c = flight(40, 10);
  flights.add(b);
  flights.add(c);
  flights.add(a);
  auto pieces = flights.pieces({15, 30});
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_EQ(pieces[0].range, (ByteRange{15, 5}));
  EXPECT_EQ(pieces[0].flight, a);
  EXPECT_EQ(pieces[1].flight, b);
  EXPECT_EQ(pieces[2].range, (ByteRange{25, 15}));
  EXPECT_EQ(pieces[2].flight, nullptr);
  EXPECT_EQ(pieces[3].range, (ByteRange{40, 5}));
  EXPECT_EQ(pieces[3].flight, c);
  EXPECT_TRUE(flights.pieces({7, 0}).empty());
  EXPECT_THAT(flights.gaps({10, 15}), ElementsAre());
  EXPECT_THAT(flights.gaps({0, 100}),
              ElementsAre(ByteRange{0, 10}, ByteRange{25, 15}, ByteRange{50, 50}));
}

TEST(FileFlights, OnlyTheSameFlightIsRemoved) {
  FileFlights flights;
  FlightPtr a = flight(10, 10);
  flights.add(a);
  EXPECT_FALSE(flights.remove(flight(10, 10)));
  EXPECT_TRUE(flights.remove(a));
  EXPECT_FALSE(flights.remove(a));
  EXPECT_TRUE(flights.empty());
}

TEST(FileFlights, AgreesWithAnArrayOfBytes) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  FileFlights flights;
  std::vector<FlightPtr> owner(200);
  for (int step = 0; step < 3000; ++step) {
    uint64_t offset = random() % 200;
    ByteRange range = ByteRange{offset, 1 + random() % 30}.clamp(200);
    if (random() % 2 == 0) {
      for (ByteRange gap : flights.gaps(range)) {
        FlightPtr added = flight(gap.offset, gap.size);
        flights.add(added);
        for (uint64_t at = gap.offset; at < gap.end(); ++at) owner[at] = added;
      }
    } else if (FlightPtr there = owner[offset]) {
      EXPECT_TRUE(flights.remove(there));
      std::ranges::replace(owner, there, FlightPtr());
    }
    uint64_t at = range.offset;
    for (const auto& piece : flights.pieces(range)) {
      ASSERT_EQ(piece.range.offset, at);
      for (; at < piece.range.end(); ++at) ASSERT_EQ(piece.flight, owner[at]) << at;
    }
    ASSERT_EQ(at, range.end());
  }
}

}  // namespace
}  // namespace leat
