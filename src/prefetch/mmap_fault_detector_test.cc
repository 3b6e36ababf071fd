// SPDX-License-Identifier: Apache-2.0
#include "prefetch/mmap_fault_detector.h"

#include <gtest/gtest.h>

#include <random>

namespace leat {
namespace {

constexpr uint64_t kAround = kMiB, kPage = 4096;

ByteRange around(uint64_t page) {
  return {page - kAround / 2, kAround};
}

TEST(MmapFaultDetector, OnlyFaultedPagesAreFetched) {
  MmapFaultDetector detector(kAround);
  std::mt19937_64 random(1);
  unsigned rejected = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t page = (1000 + random() % 1'000'000) * kPage;
    const auto wanted = detector.observe(around(page), true);
    if (!wanted) continue;
    ++rejected;
    EXPECT_EQ(wanted->page, (ByteRange{page, kPage}));
    EXPECT_FALSE(detector.observe(*wanted->page, true)) << "the page alone";
  }
  EXPECT_EQ(rejected, 97u);
  const auto part = detector.observe({77 * kMiB + kPage, kAround / 2}, true);
  ASSERT_TRUE(part) << "of a range of which the kernel had something";
  EXPECT_FALSE(part->page);
}

TEST(MmapFaultDetector, WholeRangeReaderIsRejectedOnce) {
  MmapFaultDetector detector(kAround);
  unsigned rejected = 0;
  for (uint64_t i = 1; i < 100; ++i) {
    const ByteRange read{i * 7 * kMiB, kAround};
    if (!detector.observe(read, true)) continue;
    ++rejected;
    for (uint64_t at = 0; at < kAround; at += kPage) {
      EXPECT_FALSE(detector.observe({read.offset + at, kPage}, true));
    }
  }
  EXPECT_EQ(rejected, 1u);
}

TEST(MmapFaultDetector, TrialWithoutResultEnds) {
  MmapFaultDetector detector(kAround);
  unsigned rejected = 0;
  for (uint64_t i = 1; i < 1000; ++i) {
    rejected += detector.observe({i * 7 * kMiB, kAround}, true) ? 1 : 0;
  }
  EXPECT_EQ(rejected, 1u);
}

TEST(MmapFaultDetector, SequentialMappingIsNoLongerRejected) {
  MmapFaultDetector detector(kAround);
  for (uint64_t i = 1; i <= 5; ++i) {
    const uint64_t page = i * 100 * kMiB;
    if (detector.observe(around(page), true)) detector.observe({page, kPage}, true);
  }
  const uint64_t page = 900 * kMiB;
  ASSERT_TRUE(detector.observe(around(page), true));
  for (uint64_t i = 0; i < 16; ++i) detector.observe({page + i * kPage, kPage}, true);
  EXPECT_FALSE(detector.observe(around(1000 * kMiB), true));
}

// In a range of which the kernel had some pages, the needed page may be anywhere. A program that
// always needs the first pages reads by itself.
TEST(MmapFaultDetector, ReaderFromTheBeginningIsNotRejected) {
  MmapFaultDetector detector(kAround);
  for (uint64_t i = 1; i <= 5; ++i) {
    const uint64_t page = i * 100 * kMiB;
    if (detector.observe(around(page), true)) detector.observe({page, kPage}, true);
  }
  unsigned rejected = 0;
  for (uint64_t i = 1; i < 200; ++i) {
    const ByteRange part{i * 7 * kMiB + kMiB / 3, kAround / 4};
    if (!detector.observe(part, true)) continue;
    ++rejected;
    for (uint64_t at = 0; at < part.size; at += kPage) {
      EXPECT_FALSE(detector.observe({part.offset + at, kPage}, true));
    }
  }
  EXPECT_LE(rejected, 1u);
}

// A page that is the first one of an earlier read is coincidence.
TEST(MmapFaultDetector, RandomPagesOfSmallFileStayDetected) {
  MmapFaultDetector detector(kAround);
  std::mt19937_64 random(7);
  unsigned rejected = 0;
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t page = (256 + random() % (64 * 256)) * kPage;
    if (detector.observe(around(page), true)) ++rejected;
    detector.observe({page, kPage}, true);
  }
  EXPECT_GT(rejected, 12'000u);
}

// With large folios the kernel repeats the request with more than a page.
TEST(MmapFaultDetector, RetriedReadIsNotRejectedAgain) {
  MmapFaultDetector detector(kAround);
  for (uint64_t i = 1; i <= 5; ++i) {
    const uint64_t page = i * 100 * kMiB;
    if (detector.observe(around(page), true)) detector.observe({page, kPage}, true);
  }
  ASSERT_TRUE(detector.observe(around(900 * kMiB), true));
  EXPECT_FALSE(detector.observe({900 * kMiB - 128 * kKiB, 256 * kKiB}, true));
  EXPECT_FALSE(detector.observe(around(900 * kMiB), true));
}

TEST(MmapFaultDetector, StreamsEndsAndStartsAreNeverRejected) {
  MmapFaultDetector detector(kAround);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(detector.observe({i * kMiB, kAround}, false));
    EXPECT_FALSE(detector.observe({i * 9 * kMiB, kAround - kPage}, true)) << "what the end cut";
    EXPECT_FALSE(detector.observe({0, kAround}, true));
  }
  EXPECT_FALSE(MmapFaultDetector(0).applies_to(kAround));
  EXPECT_FALSE(MmapFaultDetector(64 * kKiB).applies_to(64 * kKiB)) << "a block";
  EXPECT_TRUE(detector.applies_to(kAround));
  EXPECT_FALSE(detector.applies_to(kPage)) << "nothing was rejected yet";
}

}  // namespace
}  // namespace leat
