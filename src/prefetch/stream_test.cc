// SPDX-License-Identifier: Apache-2.0
#include "prefetch/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>

namespace leat {
namespace {

constexpr uint64_t kRead = 128 * kKiB;

uint64_t bytes_of(const std::vector<ByteRange>& ranges) {
  uint64_t sum = 0;
  for (const ByteRange& range : ranges) sum += range.size;
  return sum;
}

uint64_t seed_of_run() {
  auto seed = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// Reads [from, to) front to back and returns all planned ranges.
std::vector<ByteRange> read_through(StreamTable& table, uint64_t from, uint64_t to,
                                    uint64_t size = kRead) {
  std::vector<ByteRange> planned;
  for (uint64_t at = from; at < to; at += size) {
    for (const ByteRange& range : table.observe({at, std::min(size, to - at)})) {
      planned.push_back(range);
    }
  }
  return planned;
}

// Each planned range is whole blocks inside the file, and none overlaps another.
void expect_well_formed(std::vector<ByteRange> planned, uint64_t file_size) {
  std::ranges::sort(planned);
  for (size_t i = 0; i < planned.size(); ++i) {
    EXPECT_FALSE(planned[i].empty());
    EXPECT_EQ(planned[i].offset % kBlockBytes, 0u);
    EXPECT_LE(planned[i].end(), file_size);
    EXPECT_TRUE(planned[i].end() % kBlockBytes == 0 || planned[i].end() == file_size);
    if (i > 0) EXPECT_LE(planned[i - 1].end(), planned[i].offset);
  }
}

TEST(StreamTable, AFirstReadAtTheStartBeginsASmallWindow) {
  StreamTable table(kGiB, {});
  uint64_t ahead = bytes_of(table.observe({0, kRead}));
  EXPECT_GT(ahead, 0u);
  EXPECT_LT(ahead, 2 * kMiB);

  StreamTable header(kGiB, {});
  EXPECT_TRUE(header.observe({0, 4 * kKiB}).empty());
  StreamTable middle(kGiB, {});
  EXPECT_TRUE(middle.observe({100 * kMiB, kRead}).empty());
}

TEST(StreamTable, TheSecondReadInOrderStartsTheWindow) {
  StreamTable table(kGiB, {});
  EXPECT_TRUE(table.observe({100 * kMiB, kRead}).empty());
  auto planned = table.observe({100 * kMiB + kRead, kRead});
  ASSERT_FALSE(planned.empty());
  EXPECT_EQ(planned.front().offset, 100 * kMiB + 2 * kRead);
  EXPECT_LE(planned.back().end(), 100 * kMiB + 2 * kRead + 2 * kMiB);
  EXPECT_GE(bytes_of(planned), kMiB);
}

TEST(StreamTable, WindowAndUnitsGrowToTheirLimits) {
  const StreamOptions options;
  StreamTable table(kGiB, options);
  uint64_t widest = 0, largest = 0, first = 0;
  uint64_t planned_to = 0;
  for (uint64_t at = 0; at < kGiB; at += kRead) {
    for (const ByteRange& range : table.observe({at, kRead})) {
      if (at == kRead && first == 0) first = range.size;
      largest = std::max(largest, range.size);
      EXPECT_LE(range.size, options.unit_bytes_max);
      planned_to = range.end();
    }
    if (planned_to > at) widest = std::max(widest, planned_to - at);
  }
  EXPECT_LE(first, kMiB);
  EXPECT_EQ(largest, options.unit_bytes_max);
  EXPECT_LE(widest, options.window_bytes_max + kRead);
  EXPECT_GE(widest, options.window_bytes_max - options.unit_bytes_max);
}

TEST(StreamTable, AReaderThatWaitsGetsItsWindowSooner) {
  StreamTable patient(kGiB, {}), waiting(kGiB, {});
  uint64_t without = 0, with = 0;
  for (uint64_t at = 0; at < 6 * kMiB; at += kRead) {
    without += bytes_of(patient.observe({at, kRead}));
    with += bytes_of(waiting.observe({at, kRead}));
    waiting.on_stall({at, kRead});
  }
  EXPECT_GT(with, 2 * without);
}

TEST(StreamTable, ManyReadsThatWaitAtOnceGrowTheWindowOnce) {
  StreamTable table(kGiB, {});
  table.observe({0, kRead});
  table.observe({kRead, kRead});
  for (int i = 0; i < 100; ++i) table.on_stall({kRead, kRead});
  auto planned = table.observe({2 * kRead, kRead});
  EXPECT_LE(bytes_of(planned), 4 * kMiB);
}

TEST(StreamTable, AReaderThatWaitsWidensNoOthersWindow) {
  constexpr uint64_t kOther = 512 * kMiB;
  StreamTable alone(kGiB, {}), both(kGiB, {});
  for (uint64_t at = 0; at < 16 * kMiB; at += kRead) {
    EXPECT_EQ(bytes_of(both.observe({at, kRead})), bytes_of(alone.observe({at, kRead}))) << at;
    both.observe({kOther + at, kRead});
    both.on_stall({kOther + at, kRead});
  }
}

TEST(StreamTable, ReadsThatContinueNoneAreAtRandom) {
  StreamTable table(kGiB, {});
  auto is_at_random = [&](uint64_t offset) {
    const ByteRange read{offset, 64 * kKiB};
    const bool at_random = table.is_at_random(read);
    table.observe(read);
    return at_random;
  };
  for (uint64_t i = 0; i < 4; ++i) EXPECT_FALSE(is_at_random((7 * i + 9) * 8 * kMiB)) << i;
  EXPECT_TRUE(is_at_random(100 * kMiB));
  EXPECT_FALSE(is_at_random(100 * kMiB + 64 * kKiB)) << "it continues the one before";
  EXPECT_TRUE(is_at_random(200 * kMiB));
  is_at_random(0);
  for (uint64_t i = 1; i < 16; ++i) EXPECT_FALSE(is_at_random(i * 64 * kKiB)) << i;
  EXPECT_FALSE(is_at_random(300 * kMiB)) << "the reads before were in order";
}

TEST(StreamTable, LongerRepeatedReadContinuesStream) {
  StreamTable table(kGiB, {});
  EXPECT_TRUE(table.observe({100 * kMiB, 4 * kKiB}).empty());
  EXPECT_FALSE(table.observe({100 * kMiB, kRead}).empty());
}

TEST(StreamTable, RejectedRangeIsPlannedAgain) {
  StreamTable table(64 * kMiB, {});
  table.observe({0, kMiB});
  std::vector<ByteRange> units = table.observe({kMiB, kMiB});
  ASSERT_FALSE(units.empty());
  const ByteRange refused = units.back();
  table.on_rejected(refused);
  units = table.observe({2 * kMiB, 4 * kKiB});
  ASSERT_FALSE(units.empty());
  EXPECT_EQ(units.front().offset, refused.offset);
  units = table.observe({2 * kMiB + 4 * kKiB, 4 * kKiB});
  EXPECT_TRUE(units.empty());
}

TEST(StreamTable, ReorderedReadsAreOneStream) {
  StreamTable table(kGiB, {});
  std::vector<ByteRange> planned;
  for (uint64_t group = 0; group < 64; ++group) {
    for (uint64_t step : {0, 2, 1, 3}) {
      for (const ByteRange& range : table.observe({(group * 4 + step) * kRead, kRead})) {
        planned.push_back(range);
      }
    }
  }
  expect_well_formed(planned, kGiB);
  EXPECT_GE(bytes_of(planned), 32 * kMiB);
}

TEST(StreamTable, StreamStartingBackToFrontIsDetected) {
  StreamTable table(kGiB, {});
  uint64_t planned = 0;
  for (uint64_t offset : {2 * kRead, uint64_t{0}, 4 * kRead, kRead, 3 * kRead, 5 * kRead}) {
    planned += bytes_of(table.observe({64 * kMiB + offset, kRead}));
  }
  EXPECT_GE(planned, kMiB);
}

// 64 reads ahead of the stream, apart from each other.
TEST(StreamTable, StreamWaitsForGapsUpTo64Runs) {
  constexpr uint64_t kPage = 4 * kKiB;
  StreamTable table(kGiB, {});
  for (uint64_t run = 0; run <= 64; ++run) {
    EXPECT_TRUE(table.observe({64 * kMiB + 2 * run * kPage, kPage}).empty());
  }
  EXPECT_FALSE(table.observe({64 * kMiB + kPage, kPage}).empty());
}

TEST(StreamTable, ReadsAheadFromBackToFrontAreOneRun) {
  constexpr uint64_t kPage = 4 * kKiB;
  StreamTable table(kGiB, {});
  table.observe({64 * kMiB, kPage});
  for (uint64_t page = 200; page > 100; --page) {
    EXPECT_TRUE(table.observe({64 * kMiB + page * kPage, kPage}).empty());
  }
  EXPECT_FALSE(table.observe({64 * kMiB + kPage, kPage}).empty());
}

TEST(StreamTable, HoleCachedByKernelDoesNotEndStream) {
  StreamTable table(kGiB, {});
  read_through(table, 0, 16 * kMiB);
  auto planned = read_through(table, 17 * kMiB, 64 * kMiB);
  ASSERT_FALSE(planned.empty());
  EXPECT_GE(planned.back().end(), 72 * kMiB);
  expect_well_formed(planned, kGiB);
}

TEST(StreamTable, InterleavedStreamsKeepTheirOwnWindows) {
  constexpr uint64_t kStreams = 12, kApart = 64 * kMiB;
  StreamTable table(kStreams * kApart, {});
  std::map<uint64_t, uint64_t> planned;  // by stream
  for (uint64_t at = 0; at < 8 * kMiB; at += kRead) {
    for (uint64_t stream = 0; stream < kStreams; ++stream) {
      for (const ByteRange& range : table.observe({stream * kApart + at, kRead})) {
        planned[range.offset / kApart] += range.size;
      }
    }
  }
  for (uint64_t stream = 0; stream < kStreams; ++stream) {
    EXPECT_GE(planned[stream], 8 * kMiB) << "stream " << stream;
  }
}

// The workers of a loader, each in a separate part: parts of one file, or row groups.
TEST(StreamTable, AHundredThreadsInOneFileHaveAStreamEach) {
  constexpr uint64_t kStreams = 100, kApart = 32 * kMiB;
  StreamTable table(kStreams * kApart, {});
  uint64_t planned = 0;
  for (uint64_t at = 0; at < 8 * kMiB; at += kRead) {
    for (uint64_t stream = 0; stream < kStreams; ++stream) {
      planned += bytes_of(table.observe({stream * kApart + at, kRead}));
    }
  }
  EXPECT_GE(planned, kStreams * 8 * kMiB);
}

TEST(StreamTable, SecondReaderOfSameBytesIsOwnStream) {
  StreamTable table(kGiB, {});
  read_through(table, 0, 256 * kMiB);
  EXPECT_GE(bytes_of(read_through(table, 0, 64 * kMiB)), 60 * kMiB);
}

TEST(StreamTable, BackwardReadsPlanNothing) {
  StreamTable table(kGiB, {});
  uint64_t planned = 0;
  for (uint64_t at = 512 * kMiB; at > 256 * kMiB; at -= kRead) {
    planned += bytes_of(table.observe({at, kRead}));
  }
  EXPECT_EQ(planned, 0u);
}

TEST(StreamTable, StridesPlanNothing) {
  for (uint64_t stride : {256 * kKiB, 384 * kKiB, kMiB, 3 * kMiB, 16 * kMiB}) {
    StreamTable table(4 * kGiB, {});
    uint64_t planned = 0;
    for (uint64_t at = kMiB; at < 256 * kMiB; at += stride) {
      planned += bytes_of(table.observe({at, kRead}));
    }
    EXPECT_EQ(planned, 0u) << "stride " << stride;
  }
}

TEST(StreamTable, ReaderThatSkipsAThirdPlansNothing) {
  StreamTable table(4 * kGiB, {});
  uint64_t planned = 0;
  for (uint64_t at = kMiB; at < 256 * kMiB; at += 3 * kRead) {
    planned += bytes_of(table.observe({at, 2 * kRead}));
  }
  EXPECT_EQ(planned, 0u);
}

TEST(StreamTable, RandomReadsAreNotAmplified) {
  uint64_t seed = seed_of_run();
  std::mt19937_64 random(seed);
  for (uint64_t size : {4 * kKiB, 128 * kKiB}) {
    StreamTable table(4 * kGiB, {});
    uint64_t read = 0, planned = 0;
    // Enough reads that a chance neighbour does not decide the result.
    for (uint64_t i = 0; i < 100'000; ++i) {
      uint64_t at = random() % (4 * kGiB / size) * size;
      read += size;
      planned += bytes_of(table.observe({at, size}));
    }
    double amplification = static_cast<double>(read + planned) / static_cast<double>(read);
    EXPECT_LE(amplification, 1.1) << size << " seed " << seed;
  }
}

TEST(StreamTable, EndOfFileEndsPrefetch) {
  constexpr uint64_t kSize = 10 * kMiB + 12'345;
  StreamTable table(kSize, {});
  auto planned = read_through(table, 0, kSize);
  expect_well_formed(planned, kSize);
  EXPECT_EQ(planned.back().end(), kSize);
  EXPECT_TRUE(table.observe({kSize, kRead}).empty());
  EXPECT_TRUE(table.observe({kGiB, kRead}).empty());
  EXPECT_TRUE(StreamTable(0, {}).observe({0, kRead}).empty());
}

// One stream, cut into reads of random sizes and shuffled within the reordering distance.
TEST(StreamTable, NeverTheSameByteTwiceWhateverTheOrder) {
  uint64_t seed = seed_of_run();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    uint64_t file_size = 1 + random() % (96 * kMiB);
    uint64_t at = random() % 2 == 0 ? 0 : random() % file_size;
    std::vector<std::pair<uint64_t, ByteRange>> reads;  // by time of arrival
    while (at < file_size) {
      uint64_t size = std::min(file_size - at, (1 + random() % 64) * 4 * kKiB);
      reads.push_back({at + random() % (768 * kKiB), {at, size}});
      at += size;
    }
    std::ranges::sort(reads);
    StreamTable table(file_size, {});
    std::vector<ByteRange> planned;
    for (const auto& [when, read] : reads) {
      for (const ByteRange& range : table.observe(read)) planned.push_back(range);
      if (random() % 8 == 0) table.on_stall(read);
    }
    expect_well_formed(planned, file_size);
    if (HasFailure()) FAIL() << "round " << round << " seed " << seed;
  }
}

// Any pattern: aligned, inside the file, within the options' limits.
TEST(StreamTable, AnyPatternPlansWholeBlocksInsideTheFile) {
  uint64_t seed = seed_of_run();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 100; ++round) {
    uint64_t file_size = 1 + random() % (32 * kMiB);
    StreamOptions options;
    options.streams_max = 1 + random() % 4;
    StreamTable table(file_size, options);
    uint64_t at = 0;
    for (int i = 0; i < 500; ++i) {
      switch (random() % 6) {
        case 0:
          at = random() % (file_size + kMiB);
          break;
        case 1:
          at -= std::min(at, random() % kMiB);
          break;
        case 2:
          at += random() % kMiB;
          break;
        default:
          break;
      }
      uint64_t size = random() % (512 * kKiB);
      for (const ByteRange& range : table.observe({at, size})) {
        expect_well_formed({range}, file_size);
        EXPECT_LE(range.size, options.unit_bytes_max);
      }
      at += size;
    }
    if (HasFailure()) FAIL() << "round " << round << " seed " << seed;
  }
}

}  // namespace
}  // namespace leat
