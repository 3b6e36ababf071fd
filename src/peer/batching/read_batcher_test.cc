// SPDX-License-Identifier: Apache-2.0
#include "peer/batching/read_batcher.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using std::chrono::milliseconds;
using Admission = ReadBatcher::Admission;

QueuedReadPtr a_read(int64_t epoch = 1, uint64_t bytes = 4 * kKiB) {
  auto read = std::make_shared<QueuedRead>();
  read->request.route.epoch = epoch;
  read->request.range = {0, bytes};
  return read;
}

class ReadBatcherTest : public ::testing::Test {
 protected:
  Admission admit(ReadBatcher& reads, const QueuedReadPtr& read) { return reads.admit(read, now_); }

  Clock::time_point now_ = Clock::now();
};

TEST_F(ReadBatcherTest, SingleReadIsSentAtOnce) {
  ReadBatcher reads({.in_flight_max = 2});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(admit(reads, a_read()), Admission::kSendNow);
    EXPECT_TRUE(reads.request_ended().empty());
  }
  EXPECT_EQ(reads.in_flight(), 0u);
}

TEST_F(ReadBatcherTest, ImmediateReadNeedsNoObject) {
  ReadBatcher reads({.in_flight_max = 1});
  EXPECT_TRUE(reads.try_admit(now_));
  EXPECT_FALSE(reads.try_admit(now_));
  const auto waits = a_read();
  EXPECT_EQ(admit(reads, waits), Admission::kWaitAndPoll);
  EXPECT_EQ(reads.request_ended(), std::vector{waits});
  EXPECT_FALSE(reads.try_admit(now_)) << "the place was given on";
  EXPECT_TRUE(reads.request_ended().empty());
  EXPECT_TRUE(reads.try_admit(now_));
}

TEST_F(ReadBatcherTest, WaitingReadsShareABatch) {
  ReadBatcher reads({.in_flight_max = 1, .batch_reads_max = 3});
  ASSERT_EQ(admit(reads, a_read()), Admission::kSendNow);
  std::vector<QueuedReadPtr> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(a_read());
    EXPECT_EQ(admit(reads, waiting.back()), i == 0 ? Admission::kWaitAndPoll : Admission::kWait);
  }
  EXPECT_EQ(reads.request_ended(), (std::vector{waiting[0], waiting[1], waiting[2]}));
  EXPECT_FALSE(waiting[0]->unbatched);
  EXPECT_EQ(reads.in_flight(), 1u);
  EXPECT_EQ(reads.request_ended(), std::vector{waiting[3]});
  EXPECT_TRUE(waiting[3]->unbatched);
  EXPECT_TRUE(reads.request_ended().empty());
  EXPECT_EQ(reads.in_flight(), 0u);
}

TEST_F(ReadBatcherTest, ARequestHasSoManyBytes) {
  ReadBatcher reads({.in_flight_max = 1, .batch_bytes_max = 32 * kKiB});
  ASSERT_EQ(admit(reads, a_read()), Admission::kSendNow);
  const auto large = a_read(1, 24 * kKiB), as_large = a_read(1, 24 * kKiB), small = a_read();
  for (const auto& read : {large, as_large, small}) admit(reads, read);
  EXPECT_EQ(reads.request_ended(), (std::vector{large, small}));
  EXPECT_EQ(reads.request_ended(), std::vector{as_large});
}

TEST_F(ReadBatcherTest, OtherRoutesAreNotBatchedTogether) {
  ReadBatcher reads({.in_flight_max = 1});
  ASSERT_EQ(admit(reads, a_read()), Admission::kSendNow);
  const auto first = a_read(1), other_ring = a_read(2), replica = a_read(1), second = a_read(1);
  replica->request.route.replicas = 2;
  for (const auto& read : {first, other_ring, replica, second}) admit(reads, read);
  EXPECT_EQ(reads.request_ended(), (std::vector{first, second}));
  EXPECT_EQ(reads.request_ended(), std::vector{other_ring});
  EXPECT_EQ(reads.request_ended(), std::vector{replica});
}

TEST_F(ReadBatcherTest, RemainingReadsKeepTheirOrder) {
  ReadBatcher reads({.in_flight_max = 1, .batch_reads_max = 2, .batch_bytes_max = 8 * kKiB});
  ASSERT_EQ(admit(reads, a_read()), Admission::kSendNow);
  std::vector<QueuedReadPtr> waiting;
  for (const int64_t epoch : {1, 2, 1, 2, 1, 2, 1}) {
    waiting.push_back(a_read(epoch));
    admit(reads, waiting.back());
  }
  EXPECT_EQ(reads.request_ended(), (std::vector{waiting[0], waiting[2]}));
  EXPECT_EQ(reads.request_ended(), (std::vector{waiting[1], waiting[3]}));
  EXPECT_EQ(reads.request_ended(), (std::vector{waiting[4], waiting[6]}));
  EXPECT_EQ(reads.request_ended(), std::vector{waiting[5]});
}

TEST_F(ReadBatcherTest, WithdrawnReadFreesItsSlot) {
  ReadBatcher reads({.in_flight_max = 1});
  ASSERT_EQ(admit(reads, a_read()), Admission::kSendNow);
  const auto leaves = a_read(), stays = a_read();
  admit(reads, leaves);
  admit(reads, stays);
  EXPECT_FALSE(reads.withdraw(leaves)) << "it had not been told to go";
  EXPECT_EQ(reads.request_ended(), std::vector{stays});
  EXPECT_TRUE(reads.withdraw(stays)) << "it had, and its place is to be given on";
  EXPECT_TRUE(reads.request_ended().empty());
  EXPECT_EQ(reads.in_flight(), 0u);
}

TEST_F(ReadBatcherTest, SlowRequestsDoNotBlockReads) {
  ReadBatcher reads({.in_flight_max = 1, .wait_max = milliseconds(1)});
  ASSERT_EQ(admit(reads, a_read()), Admission::kSendNow);
  const auto early = a_read(), late = a_read();
  EXPECT_EQ(admit(reads, early), Admission::kWaitAndPoll);
  now_ += milliseconds(1);
  EXPECT_EQ(admit(reads, late), Admission::kWait);
  bool again = false;
  EXPECT_EQ(reads.take_due(now_, &again), (std::vector{early, late}));
  EXPECT_TRUE(again);
  EXPECT_EQ(reads.in_flight(), 2u);
  EXPECT_TRUE(reads.take_due(now_, &again).empty());
  EXPECT_FALSE(again);
  // Requests beyond the limit do not pass on their slot.
  EXPECT_EQ(admit(reads, early), Admission::kWaitAndPoll);
  EXPECT_TRUE(reads.request_ended().empty());
  EXPECT_TRUE(reads.take_due(now_, &again).empty()) << "it has not waited for so long";
  EXPECT_TRUE(again);
  EXPECT_EQ(reads.request_ended(), std::vector{early});
}

TEST_F(ReadBatcherTest, PoorBatchesDisableBatchingForAWhile) {
  ReadBatcher reads({.in_flight_max = 1, .unbatched_time = milliseconds(100)});
  ASSERT_EQ(admit(reads, a_read()), Admission::kSendNow);
  reads.record_batch(8, 16, now_);
  EXPECT_EQ(admit(reads, a_read()), Admission::kWaitAndPoll);
  reads.record_batch(7, 16, now_);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(admit(reads, a_read()), Admission::kSendNow);
  now_ += milliseconds(100);
  EXPECT_EQ(admit(reads, a_read()), Admission::kWait);
}

}  // namespace
}  // namespace leat
