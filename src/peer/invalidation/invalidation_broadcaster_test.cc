// SPDX-License-Identifier: Apache-2.0
// Receivers of invalidations, and resends to workers that did not respond.
#include "peer/invalidation/invalidation_broadcaster.h"

#include <gtest/gtest.h>

#include <set>

#include "peer/fake_cluster_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::worker_id;

// The other workers, as receivers of invalidations.
class InvalidationBroadcasterTest : public ::testing::Test {
 protected:
  ~InvalidationBroadcasterTest() override { executor_.block_on(broadcaster_.stop()); }

  static Invalidation object(const std::string& key) {
    return {.mount = "/data", .key = key, .kind = Invalidation::Kind::kObject};
  }
  Task<Result<>> receive(Context, WorkerId other, Invalidations news) {
    std::lock_guard lock(mutex_);
    ++requests_[other];
    if (silent_.contains(other)) {
      co_return error(StatusCode::kUnavailable, "made not to answer");
    }
    for (Invalidation& change : news.items) received_[other].push_back(std::move(change));
    co_return Result<>();
  }
  std::vector<Invalidation> received(const WorkerId& other) {
    std::lock_guard lock(mutex_);
    return received_[other];
  }
  int requests(const WorkerId& other) {
    std::lock_guard lock(mutex_);
    return requests_[other];
  }
  void wait_for_received(const WorkerId& other, size_t count) {
    while (received(other).size() < count) std::this_thread::yield();
  }
  void wait_for_requests(const WorkerId& other, int count) {
    while (requests(other) < count) std::this_thread::yield();
  }
  void set_silent(const std::set<WorkerId>& workers) {
    std::lock_guard lock(mutex_);
    silent_ = workers;
  }
  void set_others(const std::vector<WorkerId>& workers) {
    std::lock_guard lock(mutex_);
    others_ = workers;
  }

  std::vector<WorkerId> others() {
    std::function<void()> then;
    std::vector<WorkerId> now;
    {
      std::lock_guard lock(mutex_);
      now = others_;
      if (now.size() == 1) {
        ++seen_alone_;
        then = std::exchange(when_seen_alone_, {});
      }
    }
    if (then) then();
    return now;
  }
  void await_seen_alone(int count) {
    const auto seen = [this] {
      std::lock_guard lock(mutex_);
      return seen_alone_;
    };
    while (seen() < count) std::this_thread::yield();
  }

  const WorkerId one_ = worker_id(1), two_ = worker_id(2);
  std::mutex mutex_;  // leaf
  std::vector<WorkerId> others_{one_, two_};
  int seen_alone_ = 0;                     // number of calls of `others` that returned one worker
  std::function<void()> when_seen_alone_;  // called at the next such call, before it returns
  std::set<WorkerId> silent_;
  std::map<WorkerId, std::vector<Invalidation>> received_;
  std::map<WorkerId, int> requests_;
  Executor executor_{{.threads = 2}};
  InvalidationLog log_{{.mounts = [] { return std::vector<std::string>{"/data"}; }}};
  InvalidationBroadcaster broadcaster_{
      log_,
      {.others = [this] { return others(); },
       .send =
           [this](Context context, WorkerId other, Invalidations news) {
             return receive(std::move(context), other, std::move(news));
           },
       .gather_time = milliseconds(5),
       .backoff_min = milliseconds(1),
       .backoff_max = milliseconds(4)},
      executor_};
};

TEST_F(InvalidationBroadcasterTest, AllWorkersAndOwnClientsAreNotified) {
  const uint64_t before = log_.number();
  broadcaster_.publish(object("a"));
  broadcaster_.publish(object("b"));
  wait_for_received(one_, 2);
  wait_for_received(two_, 2);
  // If they were not batched, either may be sent first.
  for (const WorkerId& other : {one_, two_}) {
    std::vector<Invalidation> changes = received(other);
    std::ranges::sort(changes, {}, &Invalidation::key);
    EXPECT_EQ(changes, (std::vector{object("a"), object("b")}));
  }
  EXPECT_EQ(log_.number(), before + 2);
}

TEST_F(InvalidationBroadcasterTest, SilentWorkerIsNotifiedLater) {
  set_silent({one_});
  broadcaster_.publish(object("a"));
  wait_for_received(two_, 1);
  wait_for_requests(one_, 3);
  broadcaster_.publish(object("b"));
  wait_for_received(two_, 2);
  EXPECT_TRUE(received(one_).empty());
  set_silent({});
  wait_for_received(one_, 2);
  const auto late = received(one_);
  EXPECT_NE(std::ranges::find(late, object("a")), late.end());
  EXPECT_NE(std::ranges::find(late, object("b")), late.end());
  EXPECT_EQ(received(two_).size(), 2u) << "nobody is told twice";
}

TEST_F(InvalidationBroadcasterTest, FormerMemberIsNotNotified) {
  set_silent({one_});
  broadcaster_.publish(object("a"));
  wait_for_requests(one_, 2);
  set_others({two_});
  broadcaster_.publish(object("b"));
  wait_for_received(two_, 2);
  // One request may have begun before the worker left.
  const int requests_then = requests(one_);
  broadcaster_.publish(object("c"));
  wait_for_received(two_, 3);
  EXPECT_LE(requests(one_), requests_then + 1);
  await_seen_alone(3);  // for b, for c, and after the failed request
  set_silent({});
  set_others({one_, two_});
  broadcaster_.publish(object("d"));
  wait_for_received(one_, 1);
  EXPECT_EQ(received(one_), std::vector{object("d")})
      << "as a new one, whose clients believe nothing";
}

TEST_F(InvalidationBroadcasterTest, ReturnedWorkerGetsLaterInvalidations) {
  set_silent({one_});
  {
    std::lock_guard lock(mutex_);
    when_seen_alone_ = [this] {
      set_others({one_, two_});
      set_silent({});
      broadcaster_.publish(object("b"));
      wait_for_received(two_, 2);
    };
  }
  broadcaster_.publish(object("a"));
  wait_for_received(two_, 1);
  wait_for_requests(one_, 1);
  set_others({two_});
  wait_for_received(one_, 1);
  EXPECT_EQ(received(one_), std::vector{object("b")});
}

TEST_F(InvalidationBroadcasterTest, LongQueueIsReducedToDirectories) {
  const auto knows = [this](const WorkerId& other, std::string_view directory) {
    return std::ranges::any_of(received(other), [directory](const Invalidation& change) {
      return change.key.starts_with(directory);
    });
  };
  set_silent({one_});
  for (int i = 0; i < 3'000; ++i) broadcaster_.publish(object(fmt::format("d/{}", i)));
  broadcaster_.publish(object("e/x"));
  while (!knows(two_, "e/")) std::this_thread::yield();
  // One request may already have begun with a part; the next one has all.
  wait_for_requests(one_, requests(one_) + 2);
  set_silent({});
  while (!knows(one_, "e/")) std::this_thread::yield();
  Invalidation directory = object("d/");
  directory.kind = Invalidation::Kind::kDirectory;
  const auto all = received(one_);
  EXPECT_NE(std::ranges::find(all, directory), all.end());
  EXPECT_LE(all.size(), 1'000u);
}

}  // namespace
}  // namespace leat
