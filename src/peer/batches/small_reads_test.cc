// SPDX-License-Identifier: Apache-2.0
#include "peer/batches/small_reads.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using std::chrono::milliseconds;
using Entry = SmallReads::Entry;

SmallReadPtr a_read(int64_t epoch = 1, uint64_t bytes = 4 * kKiB) {
  auto read = std::make_shared<SmallRead>();
  read->request.route.epoch = epoch;
  read->request.range = {0, bytes};
  return read;
}

class SmallReadsTest : public ::testing::Test {
 protected:
  Entry enter(SmallReads& reads, const SmallReadPtr& read) { return reads.enter(read, now_); }

  Clock::time_point now_ = Clock::now();
};

TEST_F(SmallReadsTest, OneThatIsAloneIsNotHeldUp) {
  SmallReads reads({.under_way_max = 2});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(enter(reads, a_read()), Entry::kGo);
    EXPECT_TRUE(reads.ended().empty());
  }
  EXPECT_EQ(reads.under_way(), 0u);
}

TEST_F(SmallReadsTest, WhoGoesAtOnceNeedNotBeMade) {
  SmallReads reads({.under_way_max = 1});
  EXPECT_TRUE(reads.go(now_));
  EXPECT_FALSE(reads.go(now_));
  const auto waits = a_read();
  EXPECT_EQ(enter(reads, waits), Entry::kWaitAndWatch);
  EXPECT_EQ(reads.ended(), std::vector{waits});
  EXPECT_FALSE(reads.go(now_)) << "the place was given on";
  EXPECT_TRUE(reads.ended().empty());
  EXPECT_TRUE(reads.go(now_));
}

TEST_F(SmallReadsTest, ThoseThatComeMeanwhileGoTogether) {
  SmallReads reads({.under_way_max = 1, .together_max = 3});
  ASSERT_EQ(enter(reads, a_read()), Entry::kGo);
  std::vector<SmallReadPtr> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(a_read());
    EXPECT_EQ(enter(reads, waiting.back()), i == 0 ? Entry::kWaitAndWatch : Entry::kWait);
  }
  EXPECT_EQ(reads.ended(), (std::vector{waiting[0], waiting[1], waiting[2]}));
  EXPECT_FALSE(waiting[0]->alone);
  EXPECT_EQ(reads.under_way(), 1u);
  EXPECT_EQ(reads.ended(), std::vector{waiting[3]});
  EXPECT_TRUE(waiting[3]->alone);
  EXPECT_TRUE(reads.ended().empty());
  EXPECT_EQ(reads.under_way(), 0u);
}

TEST_F(SmallReadsTest, ARequestHasSoManyBytes) {
  SmallReads reads({.under_way_max = 1, .bytes_together_max = 32 * kKiB});
  ASSERT_EQ(enter(reads, a_read()), Entry::kGo);
  const auto large = a_read(1, 24 * kKiB), as_large = a_read(1, 24 * kKiB), small = a_read();
  for (const auto& read : {large, as_large, small}) enter(reads, read);
  EXPECT_EQ(reads.ended(), (std::vector{large, small}));
  EXPECT_EQ(reads.ended(), std::vector{as_large});
}

TEST_F(SmallReadsTest, WhatIsAskedInAnotherWayGoesByItself) {
  SmallReads reads({.under_way_max = 1});
  ASSERT_EQ(enter(reads, a_read()), Entry::kGo);
  const auto first = a_read(1), other_ring = a_read(2), replica = a_read(1), second = a_read(1);
  replica->request.route.replicas = 2;
  for (const auto& read : {first, other_ring, replica, second}) enter(reads, read);
  EXPECT_EQ(reads.ended(), (std::vector{first, second}));
  EXPECT_EQ(reads.ended(), std::vector{other_ring});
  EXPECT_EQ(reads.ended(), std::vector{replica});
}

TEST_F(SmallReadsTest, WhoStaysBehindStaysInItsOrder) {
  SmallReads reads({.under_way_max = 1, .together_max = 2, .bytes_together_max = 8 * kKiB});
  ASSERT_EQ(enter(reads, a_read()), Entry::kGo);
  std::vector<SmallReadPtr> waiting;
  for (const int64_t epoch : {1, 2, 1, 2, 1, 2, 1}) {
    waiting.push_back(a_read(epoch));
    enter(reads, waiting.back());
  }
  EXPECT_EQ(reads.ended(), (std::vector{waiting[0], waiting[2]}));
  EXPECT_EQ(reads.ended(), (std::vector{waiting[1], waiting[3]}));
  EXPECT_EQ(reads.ended(), (std::vector{waiting[4], waiting[6]}));
  EXPECT_EQ(reads.ended(), std::vector{waiting[5]});
}

TEST_F(SmallReadsTest, WhoLeavesIsNotAskedForAndLeavesNoPlaceTaken) {
  SmallReads reads({.under_way_max = 1});
  ASSERT_EQ(enter(reads, a_read()), Entry::kGo);
  const auto leaves = a_read(), stays = a_read();
  enter(reads, leaves);
  enter(reads, stays);
  EXPECT_FALSE(reads.leave(leaves)) << "it had not been told to go";
  EXPECT_EQ(reads.ended(), std::vector{stays});
  EXPECT_TRUE(reads.leave(stays)) << "it had, and its place is to be given on";
  EXPECT_TRUE(reads.ended().empty());
  EXPECT_EQ(reads.under_way(), 0u);
}

TEST_F(SmallReadsTest, WhatIsUnderWayForLongHoldsNobodyUp) {
  SmallReads reads({.under_way_max = 1, .patience = milliseconds(1)});
  ASSERT_EQ(enter(reads, a_read()), Entry::kGo);
  const auto early = a_read(), late = a_read();
  EXPECT_EQ(enter(reads, early), Entry::kWaitAndWatch);
  now_ += milliseconds(1);
  EXPECT_EQ(enter(reads, late), Entry::kWait);
  bool again = false;
  EXPECT_EQ(reads.late(now_, &again), (std::vector{early, late}));
  EXPECT_TRUE(again);
  EXPECT_EQ(reads.under_way(), 2u);
  EXPECT_TRUE(reads.late(now_, &again).empty());
  EXPECT_FALSE(again);
  // Requests beyond the limit do not pass on their slot.
  EXPECT_EQ(enter(reads, early), Entry::kWaitAndWatch);
  EXPECT_TRUE(reads.ended().empty());
  EXPECT_TRUE(reads.late(now_, &again).empty()) << "it has not waited for so long";
  EXPECT_TRUE(again);
  EXPECT_EQ(reads.ended(), std::vector{early});
}

TEST_F(SmallReadsTest, WhereBatchesGiveLittleAllGoAloneForAWhile) {
  SmallReads reads({.under_way_max = 1, .alone_time = milliseconds(100)});
  ASSERT_EQ(enter(reads, a_read()), Entry::kGo);
  reads.came(8, 16, now_);
  EXPECT_EQ(enter(reads, a_read()), Entry::kWaitAndWatch);
  reads.came(7, 16, now_);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(enter(reads, a_read()), Entry::kGo);
  now_ += milliseconds(100);
  EXPECT_EQ(enter(reads, a_read()), Entry::kWait);
}

}  // namespace
}  // namespace leat
