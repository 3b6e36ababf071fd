// SPDX-License-Identifier: Apache-2.0
#include "fetch/fair_semaphore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "fetch/fair_queue.h"
#include "model/byte_range.h"
#include "runtime/executor.h"

namespace leat {
namespace {

using Request = FairSemaphore::Request;

// Waiters of one semaphore, in the order in which they are served.
class FairSemaphoreTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (auto& pending : pending_) {
      while (!pending->try_wait()) {
        std::vector<FairSemaphore::Permit> held;
        std::lock_guard lock(mutex_);
        held.swap(held_);
      }
    }
    held_.clear();
  }

  void start(FairSemaphore::Limits limits) { semaphore_ = std::make_unique<FairSemaphore>(limits); }

  // Returns when the request has its permit or waits; permit holders are in order_ and keep theirs.
  void enter(std::string name, Request request, Context context = {}) {
    const size_t before = settled();
    pending_.push_back(std::make_shared<std::latch>(1));
    executor_.spawn(
        wait_for_it(this, std::move(name), request, std::move(context), pending_.back()));
    while (settled() == before) std::this_thread::yield();
  }
  // Releases the oldest permit, and returns the next holder.
  std::string next() {
    const size_t before = order_size();
    release_first();
    while (order_size() == before) std::this_thread::yield();
    std::lock_guard lock(mutex_);
    return order_.back();
  }
  void release_first() {
    FairSemaphore::Permit first;
    std::lock_guard lock(mutex_);
    first = std::move(held_.front());
    held_.erase(held_.begin());
  }
  size_t order_size() {
    std::lock_guard lock(mutex_);
    return order_.size();
  }
  size_t settled() { return order_size() + semaphore_->waiting(); }

  static Task<> wait_for_it(FairSemaphoreTest* test, std::string name, Request request,
                            Context context, std::shared_ptr<std::latch> done) {
    auto permit = co_await test->semaphore_->acquire(context, request, "a test");
    {
      std::lock_guard lock(test->mutex_);
      test->order_.push_back(permit ? name : name + " gave up");
      if (permit) test->held_.push_back(*std::move(permit));
    }
    done->count_down();
  }

  std::unique_ptr<FairSemaphore> semaphore_;
  std::mutex mutex_;
  std::vector<std::string> order_;
  std::vector<FairSemaphore::Permit> held_;
  std::vector<std::shared_ptr<std::latch>> pending_;
  Executor executor_{{.threads = 1}};
};

constexpr FairSemaphore::Limits kOne{1, 1, 1};

TEST_F(FairSemaphoreTest, ASmallReadPassesTheScansThatWait) {
  start(kOne);
  for (uint64_t scan = 1; scan <= 4; ++scan) {
    for (int i = 0; i < 8; ++i) enter("scan", {.flow = scan, .cost = kMiB});
  }
  enter("small", {.flow = 9, .cost = kBlockBytes});
  EXPECT_EQ(next(), "small");
}

TEST_F(FairSemaphoreTest, FilesTakeTurnsRegardlessOfDemand) {
  start(kOne);
  enter("first", {.flow = 7, .cost = kMiB});
  for (int i = 0; i < 6; ++i) enter("many", {.flow = 1, .cost = kMiB});
  for (int i = 0; i < 3; ++i) enter("few", {.flow = 2, .cost = kMiB});
  std::vector<std::string> turns;
  for (int i = 0; i < 6; ++i) turns.push_back(next());
  EXPECT_EQ(turns, (std::vector<std::string>{"many", "few", "many", "few", "many", "few"}));
}

TEST_F(FairSemaphoreTest, PastServiceIsForgottenWhenIdle) {
  start(kOne);
  enter("first", {.flow = 1, .cost = kMiB});
  enter("second", {.flow = 1, .cost = kMiB});
  EXPECT_EQ(next(), "second");
  enter("old file", {.flow = 1, .cost = kMiB});
  enter("new file", {.flow = 2, .cost = kMiB});
  EXPECT_EQ(next(), "old file");
}

TEST(FairQueue, PastServiceCountsAmongManyFiles) {
  FairQueue queue;
  const FairQueue::Position waits = queue.enqueue(0, 1, true);
  queue.dequeue(queue.enqueue(1, 1000, false), 1, 1000);
  for (uint64_t file = 2; file < 100; ++file) queue.dequeue(queue.enqueue(file, 1, false), file, 1);
  EXPECT_LT(queue.enqueue(100, 1, false), queue.enqueue(1, 1, false));
  queue.cancel(waits, 0);
}

TEST_F(FairSemaphoreTest, EndlessSmallReadsDoNotHoldUpAScan) {
  start(kOne);
  enter("first", {.flow = 1, .cost = kMiB});
  for (int i = 0; i < 4; ++i) enter("scan", {.flow = 1, .cost = kMiB});
  int scans = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    // Each time a file without earlier reads.
    enter("small", {.flow = 100 + i, .cost = kBlockBytes});
    scans += next() == "scan" ? 1 : 0;
  }
  EXPECT_GE(scans, 2);
}

TEST_F(FairSemaphoreTest, LowPriorityComesLastAndLeavesAPart) {
  start({4, 3, 4});
  for (int i = 0; i < 4; ++i) enter("load", {.low_priority = true});
  EXPECT_EQ(semaphore_->in_use(), 3u);
  EXPECT_FALSE(semaphore_->try_acquire({.low_priority = true}));
  enter("demand", {});
  EXPECT_EQ(semaphore_->in_use(), 4u);
  enter("demand", {});
  EXPECT_EQ(next(), "demand");
  EXPECT_EQ(semaphore_->waiting(), 1u);
}

TEST_F(FairSemaphoreTest, OneStoreLeavesPartOfPermitsToOthers) {
  start({8, 8, 6});
  for (int i = 0; i < 20; ++i) enter("hangs", {.tenant = 1});
  EXPECT_EQ(semaphore_->in_use(), 6u);
  enter("other", {.count = 2, .tenant = 2});
  EXPECT_EQ(semaphore_->in_use(), 8u);
  // No permit is left, but the first one of another store is granted.
  enter("third", {.tenant = 3});
  EXPECT_EQ(order_.back(), "third");
  enter("third again", {.tenant = 3});
  EXPECT_EQ(semaphore_->waiting(), 15u);
}

TEST_F(FairSemaphoreTest, CountAboveLimitCountsAsLimit) {
  start({4, 4, 3});
  enter("huge", {.count = 100, .tenant = 1});
  EXPECT_EQ(semaphore_->in_use(), 4u);
  enter("next", {.count = 1, .tenant = 1});
  EXPECT_EQ(next(), "next");
  EXPECT_EQ(semaphore_->in_use(), 1u);
}

TEST_F(FairSemaphoreTest, AbandonedWaiterBlocksNoOther) {
  start(kOne);
  enter("first", {});
  std::stop_source stop;
  Context context;
  context.cancel = stop.get_token();
  enter("impatient", {.flow = 1, .cost = kMiB}, context);
  enter("patient", {.flow = 2, .cost = 2 * kMiB});
  stop.request_stop();
  while (order_size() < 2) std::this_thread::yield();
  EXPECT_EQ(order_.back(), "impatient gave up");
  EXPECT_EQ(next(), "patient");
  release_first();
  EXPECT_EQ(semaphore_->in_use(), 0u);
  EXPECT_EQ(semaphore_->waiting(), 0u);
}

// An abandoned waiter was queued before one that fits.
TEST_F(FairSemaphoreTest, WaiterBehindAbandonedOneIsGranted) {
  start({8, 8, 8});
  enter("first", {.count = 6, .flow = 1, .cost = 1});
  std::stop_source stop;
  enter("large", {.count = 4, .flow = 2, .cost = 1},
        Context::background().with_cancel(stop.get_token()));
  enter("small", {.count = 2, .flow = 3, .cost = 100});
  EXPECT_EQ(semaphore_->waiting(), 2u);
  stop.request_stop();
  while (order_size() < 3) std::this_thread::yield();
  EXPECT_EQ(semaphore_->in_use(), 8u);
  EXPECT_EQ(semaphore_->waiting(), 0u);
}

// The waiters are of one store and blocked by its limit.
TEST_F(FairSemaphoreTest, LargeRequestOfFullStoreIsNotStarved) {
  start({16, 16, 12});
  for (uint64_t i = 0; i < 11; ++i) enter("small", {.tenant = 1, .flow = i, .cost = 1000});
  enter("large", {.count = 8, .tenant = 1, .flow = 100, .cost = 8000});
  int given_back = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    enter("small", {.tenant = 1, .flow = 1000 + i, .cost = 1000});
    release_first();
    ++given_back;
    std::lock_guard lock(mutex_);
    if (std::ranges::find(order_, "large") != order_.end()) break;
  }
  EXPECT_LT(given_back, 50);
}

// The total limit applies. If small requests were granted first, they could take each released
// permit, and the large one would starve.
TEST_F(FairSemaphoreTest, ALargeRequestIsNotOvertakenForEver) {
  start({8, 8, 8});
  for (int i = 0; i < 5; ++i) enter("small", {.tenant = 1, .flow = 1, .cost = 1});
  enter("other", {.count = 3, .tenant = 2, .flow = 2, .cost = 1});
  enter("large", {.count = 4, .tenant = 2, .flow = 3, .cost = 1});
  enter("late", {.tenant = 1, .flow = 4, .cost = 100});
  for (int i = 0; i < 3; ++i) {
    release_first();
    EXPECT_EQ(semaphore_->waiting(), 2u);
  }
  EXPECT_EQ(next(), "large");
  EXPECT_EQ(semaphore_->in_use(), 8u);
  EXPECT_EQ(next(), "late");
}

TEST_F(FairSemaphoreTest, AStoreWithoutRequestsLeavesNoRecord) {
  start({4, 4, 4});
  for (uint64_t store = 1; store <= 3; ++store) enter("one", {.tenant = store});
  EXPECT_EQ(semaphore_->tenants(), 3u);
  for (int i = 0; i < 3; ++i) release_first();
  EXPECT_EQ(semaphore_->tenants(), 0u);
  enter("all", {.count = 4, .tenant = 1});
  std::stop_source stop;
  enter("second", {.count = 4, .tenant = 1}, Context::background().with_cancel(stop.get_token()));
  stop.request_stop();
  while (order_size() < 5) std::this_thread::yield();
  EXPECT_EQ(semaphore_->tenants(), 1u);
  release_first();
  EXPECT_EQ(semaphore_->tenants(), 0u);
}

TEST_F(FairSemaphoreTest, ShrunkPermitReleasesTheRest) {
  start({8, 8, 8});
  enter("first", {.count = 8});
  enter("second", {.count = 5});
  {
    std::lock_guard lock(mutex_);
    held_.front().shrink_to(9);
  }
  EXPECT_EQ(semaphore_->waiting(), 1u);
  FairSemaphore::Permit first;
  {
    std::lock_guard lock(mutex_);
    first = std::move(held_.front());
    held_.erase(held_.begin());
  }
  first.shrink_to(3);
  while (order_size() < 2) std::this_thread::yield();
  EXPECT_EQ(semaphore_->in_use(), 8u);
}

}  // namespace
}  // namespace leat
