// SPDX-License-Identifier: Apache-2.0
#include "prefetch/fault_guess.h"

#include <gtest/gtest.h>

#include <random>

namespace leat {
namespace {

constexpr uint64_t kAround = kMiB, kPage = 4096;

ByteRange around(uint64_t page) {
  return {page - kAround / 2, kAround};
}

TEST(FaultGuess, OfPagesOfAMappingOnlyTheseAreAsked) {
  FaultGuess guess(kAround);
  std::mt19937_64 random(1);
  unsigned refused = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t page = (1000 + random() % 1'000'000) * kPage;
    const auto wanted = guess.observe(around(page), true);
    if (!wanted) continue;
    ++refused;
    EXPECT_EQ(wanted->page, (ByteRange{page, kPage}));
    EXPECT_FALSE(guess.observe(*wanted->page, true)) << "the page alone";
  }
  EXPECT_EQ(refused, 97u);
  const auto part = guess.observe({77 * kMiB + kPage, kAround / 2}, true);
  ASSERT_TRUE(part) << "of a range of which the kernel had something";
  EXPECT_FALSE(part->page);
}

TEST(FaultGuess, WhoWantsAllOfItIsRefusedOnce) {
  FaultGuess guess(kAround);
  unsigned refused = 0;
  for (uint64_t i = 1; i < 100; ++i) {
    const ByteRange read{i * 7 * kMiB, kAround};
    if (!guess.observe(read, true)) continue;
    ++refused;
    for (uint64_t at = 0; at < kAround; at += kPage) {
      EXPECT_FALSE(guess.observe({read.offset + at, kPage}, true));
    }
  }
  EXPECT_EQ(refused, 1u);
}

TEST(FaultGuess, ATrialThatShowsNothingEnds) {
  FaultGuess guess(kAround);
  unsigned refused = 0;
  for (uint64_t i = 1; i < 1000; ++i) {
    refused += guess.observe({i * 7 * kMiB, kAround}, true) ? 1 : 0;
  }
  EXPECT_EQ(refused, 1u);
}

TEST(FaultGuess, AMappingThatIsReadOnIsNotRefusedAnyMore) {
  FaultGuess guess(kAround);
  for (uint64_t i = 1; i <= 5; ++i) {
    const uint64_t page = i * 100 * kMiB;
    if (guess.observe(around(page), true)) guess.observe({page, kPage}, true);
  }
  const uint64_t page = 900 * kMiB;
  ASSERT_TRUE(guess.observe(around(page), true));
  for (uint64_t i = 0; i < 16; ++i) guess.observe({page + i * kPage, kPage}, true);
  EXPECT_FALSE(guess.observe(around(1000 * kMiB), true));
}

// In a range of which the kernel had some pages, the needed page may be anywhere. A program that
// always needs the first pages reads by itself.
TEST(FaultGuess, WhoReadsPartsFromTheirBeginningIsSoonRefusedNoMore) {
  FaultGuess guess(kAround);
  for (uint64_t i = 1; i <= 5; ++i) {
    const uint64_t page = i * 100 * kMiB;
    if (guess.observe(around(page), true)) guess.observe({page, kPage}, true);
  }
  unsigned refused = 0;
  for (uint64_t i = 1; i < 200; ++i) {
    const ByteRange part{i * 7 * kMiB + kMiB / 3, kAround / 4};
    if (!guess.observe(part, true)) continue;
    ++refused;
    for (uint64_t at = 0; at < part.size; at += kPage) {
      EXPECT_FALSE(guess.observe({part.offset + at, kPage}, true));
    }
  }
  EXPECT_LE(refused, 1u);
}

// A page that is the first one of an earlier read is coincidence.
TEST(FaultGuess, RandomPagesOfASmallFileAreLearntForGood) {
  FaultGuess guess(kAround);
  std::mt19937_64 random(7);
  unsigned refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t page = (256 + random() % (64 * 256)) * kPage;
    if (guess.observe(around(page), true)) ++refused;
    guess.observe({page, kPage}, true);
  }
  EXPECT_GT(refused, 12'000u);
}

// With large folios the kernel repeats the request with more than a page.
TEST(FaultGuess, WhatIsAskedAgainIsNotRefusedAgain) {
  FaultGuess guess(kAround);
  for (uint64_t i = 1; i <= 5; ++i) {
    const uint64_t page = i * 100 * kMiB;
    if (guess.observe(around(page), true)) guess.observe({page, kPage}, true);
  }
  ASSERT_TRUE(guess.observe(around(900 * kMiB), true));
  EXPECT_FALSE(guess.observe({900 * kMiB - 128 * kKiB, 256 * kKiB}, true));
  EXPECT_FALSE(guess.observe(around(900 * kMiB), true));
}

TEST(FaultGuess, StreamsEndsAndBeginningsAreNeverRefused) {
  FaultGuess guess(kAround);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(guess.observe({i * kMiB, kAround}, false));
    EXPECT_FALSE(guess.observe({i * 9 * kMiB, kAround - kPage}, true)) << "what the end cut";
    EXPECT_FALSE(guess.observe({0, kAround}, true));
  }
  EXPECT_FALSE(FaultGuess(0).concerns(kAround));
  EXPECT_FALSE(FaultGuess(64 * kKiB).concerns(64 * kKiB)) << "a block";
  EXPECT_TRUE(guess.concerns(kAround));
  EXPECT_FALSE(guess.concerns(kPage)) << "nothing was refused yet";
}

}  // namespace
}  // namespace leat
