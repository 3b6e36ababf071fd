// SPDX-License-Identifier: Apache-2.0
#include "source/part_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace leat {
namespace {

const SourceCapabilities kS3{.copies_parts = true, .part_bytes_min = 5 * kMiB, .parts_max = 10'000};

// "c0+10 s10+1": a copied part and one that is sent, in MiB.
std::string text(const std::vector<PlannedPart>& parts) {
  std::string all;
  for (const PlannedPart& part : parts) {
    all += fmt::format("{}{}{}+{}", all.empty() ? "" : " ", part.copied ? 'c' : 's',
                       part.range.offset / kMiB, part.range.size / kMiB);
  }
  return all;
}

std::string plan(uint64_t mib, std::vector<ByteRange> same) {
  for (ByteRange& range : same) range = {range.offset * kMiB, range.size * kMiB};
  return text(plan_parts(kS3, mib * kMiB, same));
}

TEST(PartPlan, AppendedBytesAreSent) {
  EXPECT_EQ(plan(65, {{0, 64}}), "c0+64 s64+1");
  EXPECT_EQ(plan(64, {{0, 64}}), "c0+64") << "new attributes only";
}

TEST(PartPlan, SmallChangeTakesNeighboursAlong) {
  EXPECT_EQ(plan(64, {{0, 20}, {21, 43}}), "c0+20 s20+8 c28+36");
  EXPECT_EQ(plan(64, {{1, 63}}), "s0+8 c8+56");
}

TEST(PartPlan, SmallUnchangedRangeIsSent) {
  EXPECT_EQ(plan(64, {{0, 20}, {30, 4}, {40, 24}}), "c0+20 s20+10 s30+10 c40+24");
  EXPECT_EQ(plan(64, {{0, 4}, {40, 7}}), "");
  EXPECT_EQ(plan(64, {}), "");
}

TEST(PartPlan, TruncatedObjectIsCopied) {
  EXPECT_EQ(plan(30, {{0, 64}}), "c0+30");
}

TEST(PartPlan, LargeRangeIsCopiedInShares) {
  EXPECT_EQ(plan(300, {{0, 300}}), "c0+100 c100+100 c200+100");
}

// The parts cover the object, in order, within the store's limits.
TEST(PartPlan, RandomPlansKeepTheLimits) {
  std::minstd_rand random(1);
  for (int round = 0; round < 2000; ++round) {
    const uint64_t size = 1 + random() % (300 * kMiB);
    std::vector<ByteRange> same;
    for (uint64_t at = random() % (20 * kMiB); at < size;) {
      same.push_back({at, 1 + random() % (60 * kMiB)});
      at = same.back().end() + 1 + random() % (20 * kMiB);
    }
    const std::vector<PlannedPart> parts = plan_parts(kS3, size, same);
    uint64_t done = 0;
    for (const PlannedPart& part : parts) {
      ASSERT_EQ(part.range.offset, done) << "round " << round;
      done = part.range.end();
      if (done < size) ASSERT_GE(part.range.size, kS3.part_bytes_min) << "round " << round;
      if (!part.copied) continue;
      bool is_same = false;
      for (const ByteRange& range : same) is_same = is_same || range.contains(part.range);
      ASSERT_TRUE(is_same) << "round " << round;
    }
    if (!parts.empty()) ASSERT_EQ(done, size) << "round " << round;
  }
}

TEST(PartPlan, LargestObjectKeepsTheLimit) {
  const uint64_t size = 5 * kMiB * kMiB;
  const std::vector<PlannedPart> parts = plan_parts(kS3, size, {{0, size - kMiB}});
  EXPECT_FALSE(parts.empty());
  EXPECT_LE(parts.size(), kS3.parts_max);
}

}  // namespace
}  // namespace leat
