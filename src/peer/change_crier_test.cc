// SPDX-License-Identifier: Apache-2.0
// Receivers of invalidations, and resends to workers that did not respond.
#include "peer/change_crier.h"

#include <gtest/gtest.h>

#include <set>

#include "peer/made_cluster_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::worker_id;

// The other workers, as receivers of invalidations.
class ChangeCrierTest : public ::testing::Test {
 protected:
  ~ChangeCrierTest() override { executor_.wait(crier_.stop()); }

  static PeerChange object(const std::string& key) {
    return {.mount = "/data", .key = key, .kind = PeerChange::Kind::kObject};
  }
  Task<Result<>> tell(Context, WorkerId other, PeerChanges news) {
    std::lock_guard lock(mutex_);
    ++asked_[other];
    if (silent_.contains(other)) {
      co_return error(StatusCode::kUnavailable, "made not to answer");
    }
    for (PeerChange& change : news.changes) told_[other].push_back(std::move(change));
    co_return Result<>();
  }
  std::vector<PeerChange> told(const WorkerId& other) {
    std::lock_guard lock(mutex_);
    return told_[other];
  }
  int asked(const WorkerId& other) {
    std::lock_guard lock(mutex_);
    return asked_[other];
  }
  void await_told(const WorkerId& other, size_t count) {
    while (told(other).size() < count) std::this_thread::yield();
  }
  void await_asked(const WorkerId& other, int count) {
    while (asked(other) < count) std::this_thread::yield();
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
  std::map<WorkerId, std::vector<PeerChange>> told_;
  std::map<WorkerId, int> asked_;
  Executor executor_{{.threads = 2}};
  ChangeLog log_{{.mounts = [] { return std::vector<std::string>{"/data"}; }}};
  ChangeCrier crier_{log_,
                     {.others = [this] { return others(); },
                      .tell =
                          [this](Context context, WorkerId other, PeerChanges news) {
                            return tell(std::move(context), other, std::move(news));
                          },
                      .gather = milliseconds(5),
                      .pause_min = milliseconds(1),
                      .pause_max = milliseconds(4)},
                     executor_};
};

TEST_F(ChangeCrierTest, AllOthersAreToldAndOwnClients) {
  const uint64_t before = log_.number();
  crier_.cry(object("a"));
  crier_.cry(object("b"));
  await_told(one_, 2);
  await_told(two_, 2);
  // If they were not gathered, either may be sent first.
  for (const WorkerId& other : {one_, two_}) {
    std::vector<PeerChange> changes = told(other);
    std::ranges::sort(changes, {}, &PeerChange::key);
    EXPECT_EQ(changes, (std::vector{object("a"), object("b")}));
  }
  EXPECT_EQ(log_.number(), before + 2);
}

TEST_F(ChangeCrierTest, WhoDoesNotAnswerIsToldLaterAndKeepsNobodyWaiting) {
  set_silent({one_});
  crier_.cry(object("a"));
  await_told(two_, 1);
  await_asked(one_, 3);
  crier_.cry(object("b"));
  await_told(two_, 2);
  EXPECT_TRUE(told(one_).empty());
  set_silent({});
  await_told(one_, 2);
  const auto late = told(one_);
  EXPECT_NE(std::ranges::find(late, object("a")), late.end());
  EXPECT_NE(std::ranges::find(late, object("b")), late.end());
  EXPECT_EQ(told(two_).size(), 2u) << "nobody is told twice";
}

TEST_F(ChangeCrierTest, WhoIsNoneOfThemAnyMoreIsToldNothing) {
  set_silent({one_});
  crier_.cry(object("a"));
  await_asked(one_, 2);
  set_others({two_});
  crier_.cry(object("b"));
  await_told(two_, 2);
  // One request may have begun before the worker left.
  const int asked_then = asked(one_);
  crier_.cry(object("c"));
  await_told(two_, 3);
  EXPECT_LE(asked(one_), asked_then + 1);
  await_seen_alone(3);  // for b, for c, and after the failed request
  set_silent({});
  set_others({one_, two_});
  crier_.cry(object("d"));
  await_told(one_, 1);
  EXPECT_EQ(told(one_), std::vector{object("d")}) << "as a new one, whose clients believe nothing";
}

TEST_F(ChangeCrierTest, WhatChangesAfterOneHasComeBackIsToldThoughItsLeavingIsSeenLate) {
  set_silent({one_});
  {
    std::lock_guard lock(mutex_);
    when_seen_alone_ = [this] {
      set_others({one_, two_});
      set_silent({});
      crier_.cry(object("b"));
      await_told(two_, 2);
    };
  }
  crier_.cry(object("a"));
  await_told(two_, 1);
  await_asked(one_, 1);
  set_others({two_});
  await_told(one_, 1);
  EXPECT_EQ(told(one_), std::vector{object("b")});
}

TEST_F(ChangeCrierTest, OfMuchThatWasMissedTheDirectoriesAreTold) {
  const auto knows = [this](const WorkerId& other, std::string_view directory) {
    return std::ranges::any_of(told(other), [directory](const PeerChange& change) {
      return change.key.starts_with(directory);
    });
  };
  set_silent({one_});
  for (int i = 0; i < 3'000; ++i) crier_.cry(object(fmt::format("d/{}", i)));
  crier_.cry(object("e/x"));
  while (!knows(two_, "e/")) std::this_thread::yield();
  // One request may already have begun with a part; the next one has all.
  await_asked(one_, asked(one_) + 2);
  set_silent({});
  while (!knows(one_, "e/")) std::this_thread::yield();
  PeerChange directory = object("d/");
  directory.kind = PeerChange::Kind::kDirectory;
  const auto all = told(one_);
  EXPECT_NE(std::ranges::find(all, directory), all.end());
  EXPECT_LE(all.size(), 1'000u);
}

}  // namespace
}  // namespace leat
