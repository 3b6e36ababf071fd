// SPDX-License-Identifier: Apache-2.0
#include "worker/epoch_waiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "peer/fake_cluster_test.h"
#include "runtime/executor.h"

namespace leat {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::worker_id;

class CountingViews : public testing::FakeViewSource {
 public:
  std::atomic<int> waits = 0;

  Task<Result<ClusterViewPtr>> newer(Context context, RegistryRevision after) override {
    ++waits;
    return testing::FakeViewSource::newer(std::move(context), after);
  }
};

class EpochWaiterTest : public ::testing::Test {
 protected:
  EpochWaiterTest() { set_epoch(7); }

  void set_epoch(int64_t epoch) {
    ClusterView view;
    view.revision = ++revision_;
    view.ring = Ring(epoch, {{worker_id(0), 1}});
    map_.set(view);
  }
  // The epoch of the resulting view.
  int64_t epoch_for(EpochWaiter& rings, int64_t asked, Context context = Context::background()) {
    return executor_.block_on(rings.wait_for_epoch(std::move(context), asked))->ring.epoch();
  }
  std::future<int64_t> begin(EpochWaiter& rings, int64_t asked) {
    return std::async(std::launch::async, [&, asked] { return epoch_for(rings, asked); });
  }

  Executor executor_;
  CountingViews map_;
  RegistryRevision revision_ = 0;
};

TEST_F(EpochWaiterTest, WhatIsKnownIsGoneByAtOnce) {
  EpochWaiter rings(map_, {.wait_max = hours(1)});
  EXPECT_EQ(epoch_for(rings, 7), 7);
  EXPECT_EQ(epoch_for(rings, 6), 7);
  EXPECT_EQ(epoch_for(rings, 0), 7);
}

TEST_F(EpochWaiterTest, WaitsForNewerEpochAcrossViews) {
  EpochWaiter rings(map_, {.wait_max = hours(1)});
  auto waiting = begin(rings, 9);
  set_epoch(7);
  set_epoch(8);
  EXPECT_EQ(waiting.wait_for(milliseconds(20)), std::future_status::timeout);
  set_epoch(10);
  EXPECT_EQ(waiting.get(), 10);
}

TEST_F(EpochWaiterTest, TimedOutEpochIsNotAwaitedDuringBackoff) {
  EpochWaiter rings(map_, {.wait_max = milliseconds(1), .backoff = hours(1)});
  EXPECT_FALSE(rings.has_epoch(8));
  EXPECT_EQ(epoch_for(rings, 8), 7);
  EXPECT_EQ(map_.waits, 1);
  EXPECT_TRUE(rings.has_epoch(8));
  EXPECT_EQ(epoch_for(rings, 8), 7);
  EXPECT_EQ(map_.waits, 1);
  EXPECT_FALSE(rings.has_epoch(9));
  EXPECT_EQ(epoch_for(rings, 9), 7) << "this one might";
  EXPECT_EQ(map_.waits, 2);
  EXPECT_TRUE(rings.has_epoch(8));
  set_epoch(9);
  EXPECT_EQ(epoch_for(rings, 9), 9);
}

TEST_F(EpochWaiterTest, HoweverManyAreMadeUp) {
  EpochWaiter rings(map_, {.wait_max = milliseconds(0), .backoff = hours(1)});
  for (int64_t epoch = 8; epoch < 1000; ++epoch) EXPECT_EQ(epoch_for(rings, epoch), 7);
  EXPECT_TRUE(rings.has_epoch(999));
  EXPECT_FALSE(rings.has_epoch(8));
}

TEST_F(EpochWaiterTest, ThatWhileHasAnEnd) {
  EpochWaiter rings(map_, {.wait_max = milliseconds(1), .backoff = seconds(0)});
  EXPECT_EQ(epoch_for(rings, 8), 7);
  EXPECT_EQ(epoch_for(rings, 8), 7);
  EXPECT_EQ(map_.waits, 2);
}

TEST_F(EpochWaiterTest, UpkeepHasATimeOfItsOwn) {
  EpochWaiter rings(
      map_, {.wait_max = milliseconds(0), .cache_op_wait_max = hours(1), .backoff = hours(1)});
  auto waiting = std::async(std::launch::async, [&] {
    return executor_.block_on(rings.wait_for_epoch_of_cache_op(Context::background(), 8))
        ->ring.epoch();
  });
  EXPECT_EQ(waiting.wait_for(milliseconds(20)), std::future_status::timeout);
  set_epoch(8);
  EXPECT_EQ(waiting.get(), 8);
}

TEST_F(EpochWaiterTest, WhoGivesUpSaysNothingOfTheRing) {
  EpochWaiter rings(map_, {.wait_max = hours(1), .backoff = hours(1)});
  EXPECT_EQ(epoch_for(rings, 8, Context::background().with_timeout(milliseconds(1))), 7);
  auto waiting = begin(rings, 8);
  EXPECT_EQ(waiting.wait_for(milliseconds(20)), std::future_status::timeout);
  set_epoch(8);
  EXPECT_EQ(waiting.get(), 8);
}

}  // namespace
}  // namespace leat
