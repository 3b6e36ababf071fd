// SPDX-License-Identifier: Apache-2.0
// Workers that join, leave, drain, restart and are cut off, as seen by all of them.
#include "cluster/cluster_member.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "cluster/cluster_records.h"
#include "cluster/embedded_registry.h"
#include "cluster/faulty_registry_test.h"
#include "cluster/wait_until_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FaultyRegistry;
using testing::wait_until;

WorkerId worker(const std::string& name) {
  const std::string_view part = name;
  return WorkerId(Id128::digest({&part, 1}));
}

// Grants leases once the test lets it.
class SlowToGrant : public FaultyRegistry {
 public:
  using FaultyRegistry::FaultyRegistry;
  Task<Result<RegistryLease>> grant(Context context, seconds ttl) override {
    Result<bool> opened = co_await gate->wait(context, "a gate");
    if (!opened) co_return Error(opened.error());
    co_return co_await FaultyRegistry::grant(std::move(context), ttl);
  }
  const std::shared_ptr<SharedPromise<bool>> gate = SharedPromise<bool>::make();
};

class ClusterMemberTest : public ::testing::Test {
 protected:
  ClusterMemberTest()
      : registry_(EmbeddedRegistry::open({}, make_disk(executor_), executor_).value()) {}
  ~ClusterMemberTest() override { executor_.block_on(registry_->stop()); }

  struct Member {
    Member(Registry& registry, const std::string& name, Clock::duration absence_timeout,
           Executor& on, const std::string& port = "7480", std::chrono::seconds ttl = seconds(2))
        : executor(on), faulty(registry) {
      ClusterMemberOptions options{.cluster = "test", .ttl = ttl};
      options.self = {.id = worker(name), .address = name + ":" + port, .capacity_bytes = kTiB};
      options.ring = {.absence_timeout = absence_timeout, .debounce = milliseconds(10)};
      member = ClusterMember::start(faulty, std::move(options), executor);
    }
    ~Member() { executor.block_on(member->stop(Context::background().with_timeout(seconds(5)))); }
    ClusterViewPtr view() const { return member->views().view(); }

    Executor& executor;
    FaultyRegistry faulty;
    std::unique_ptr<ClusterMember> member;
  };

  std::unique_ptr<Member> member(const std::string& name,
                                 Clock::duration absence_timeout = std::chrono::minutes(10)) {
    return std::make_unique<Member>(*registry_, name, absence_timeout, executor_);
  }
  static bool has_ring(const ClusterView& view, const std::vector<std::string>& names) {
    std::vector<WorkerId> ids, seen;
    for (const std::string& name : names) ids.push_back(worker(name));
    std::ranges::sort(ids);
    for (const RingMember& one : view.ring.members()) seen.push_back(one.worker);
    return seen == ids;
  }
  static bool has_ring(const Member& of, const std::vector<std::string>& names) {
    return has_ring(*of.view(), names);
  }

  Executor executor_;
  std::unique_ptr<Registry> registry_;
};

TEST_F(ClusterMemberTest, OneAloneIsARing) {
  auto a = member("a");
  ClusterViewPtr view;
  ASSERT_TRUE(wait_until([&] {
    view = a->view();
    return has_ring(*view, {"a"}) && view->worker(worker("a")) != nullptr && !view->leader.empty();
  }));
  EXPECT_EQ(view->worker(worker("a"))->address, "a:7480");
  EXPECT_EQ(view->leader, worker("a").to_hex());
  EXPECT_EQ(view->cluster, "test");
}

TEST_F(ClusterMemberTest, AllSeeTheSameRing) {
  std::vector<std::unique_ptr<Member>> members;
  for (const char* name : {"a", "b", "c"}) members.push_back(member(name));
  ASSERT_TRUE(wait_until([&] {
    return std::ranges::all_of(members,
                               [](const auto& one) { return has_ring(*one, {"a", "b", "c"}); });
  }));
  const auto epoch = members.front()->view()->ring.epoch();
  for (const auto& one : members) EXPECT_EQ(one->view()->ring.epoch(), epoch);
}

TEST_F(ClusterMemberTest, LeftWorkerKeepsRingPlaceUntilTimeout) {
  auto a = member("a");
  auto b = member("b");
  ASSERT_TRUE(wait_until([&] { return has_ring(*a, {"a", "b"}); }));
  const auto epoch = a->view()->ring.epoch();
  b.reset();
  ASSERT_TRUE(wait_until([&] { return a->view()->worker(worker("b")) == nullptr; }));
  EXPECT_TRUE(has_ring(*a, {"a", "b"}));
  b = member("b");
  ASSERT_TRUE(wait_until([&] { return a->view()->worker(worker("b")) != nullptr; }));
  EXPECT_EQ(a->view()->ring.epoch(), epoch) << "a restart moves nothing";
}

// The lease lasts a minute, and a third of that passes between renewals.
TEST_F(ClusterMemberTest, RemovedRecordIsPutAgainAtOnce) {
  Member a(*registry_, "a", std::chrono::minutes(10), executor_, "7480", seconds(60));
  ASSERT_TRUE(wait_until([&] { return has_ring(a, {"a"}); }));
  auto entries =
      executor_.block_on(registry_->list(Context::background(), worker_key(worker("a"))))->entries;
  ASSERT_EQ(entries.size(), 1u);
  const RegistryLease lease = entries.front().lease;
  ASSERT_TRUE(executor_.block_on(registry_->revoke(Context::background(), lease)));
  const auto begun = Clock::now();
  ASSERT_TRUE(wait_until([&] {
    const auto now =
        executor_.block_on(registry_->list(Context::background(), entries.front().key));
    return now->entries.size() == 1 && now->entries.front().lease != lease;
  }));
  EXPECT_LT(Clock::now() - begun, seconds(15));
}

TEST_F(ClusterMemberTest, AbsentWorkerLosesItsPlace) {
  auto a = member("a", milliseconds(100));
  auto b = member("b", milliseconds(100));
  ASSERT_TRUE(wait_until([&] { return has_ring(*a, {"a", "b"}); }));
  b.reset();
  ASSERT_TRUE(wait_until([&] { return has_ring(*a, {"a"}); }));
  ASSERT_TRUE(a->view()->previous);
  EXPECT_EQ(a->view()->previous->members().size(), 2u);
}

TEST_F(ClusterMemberTest, DrainingWorkerIsPresentButNoMember) {
  auto a = member("a");
  auto b = member("b");
  ASSERT_TRUE(wait_until([&] { return has_ring(*a, {"a", "b"}); }));
  WorkerInfo self = b->member->self();
  self.state = WorkerState::kDraining;
  b->member->publish(self);
  ClusterViewPtr view;
  ASSERT_TRUE(wait_until([&] {
    view = a->view();
    return has_ring(*view, {"a"}) && view->worker(worker("b")) != nullptr;
  }));
  EXPECT_EQ(view->worker(worker("b"))->state, WorkerState::kDraining);
}

TEST_F(ClusterMemberTest, AnotherOneLeadsAndKeepsTheRing) {
  auto a = member("a");
  ASSERT_TRUE(wait_until([&] { return has_ring(*a, {"a"}); }));
  auto b = member("b");
  ASSERT_TRUE(wait_until([&] { return has_ring(*b, {"a", "b"}); }));
  a.reset();
  ASSERT_TRUE(wait_until([&] { return b->view()->leader == worker("b").to_hex(); }));
  auto c = member("c");
  ASSERT_TRUE(wait_until([&] { return has_ring(*c, {"a", "b", "c"}); }));
}

TEST_F(ClusterMemberTest, WithoutARegistryAllStaysAsItWas) {
  auto a = member("a");
  auto b = member("b");
  ASSERT_TRUE(wait_until([&] { return has_ring(*a, {"a", "b"}) && has_ring(*b, {"a", "b"}); }));
  a->faulty.disconnect();
  b->faulty.disconnect();
  ASSERT_TRUE(wait_until([&] { return a->member->trouble().has_value(); }));
  EXPECT_TRUE(has_ring(*a, {"a", "b"}));
  EXPECT_NE(a->view()->worker(worker("b")), nullptr);
  // Until long after the leases have ended there.
  ASSERT_TRUE(wait_until([&] {
    auto left =
        executor_.block_on(registry_->list(Context::background(), std::string(kWorkerKeys)));
    return left && left->entries.empty();
  }));
  EXPECT_NE(a->view()->worker(worker("b")), nullptr);
  a->faulty.connect();
  b->faulty.connect();
  ASSERT_TRUE(wait_until([&] {
    return !a->member->trouble() && !b->member->trouble() && a->view()->workers.size() == 2 &&
           b->view()->workers.size() == 2;
  }));
  EXPECT_TRUE(has_ring(*a, {"a", "b"}));
}

TEST_F(ClusterMemberTest, RemovedRecordIsRepublished) {
  auto a = member("a");
  auto b = member("b");
  ASSERT_TRUE(wait_until([&] { return has_ring(*a, {"a", "b"}) && has_ring(*b, {"a", "b"}); }));
  // As if restored to a state from before `a` joined; its lease is known all the same.
  a->faulty.disconnect();
  auto removed = executor_.block_on(
      registry_->commit(Context::background(), {.removals = {worker_key(worker("a"))}}));
  ASSERT_TRUE(removed);
  ASSERT_TRUE(wait_until([&] { return b->view()->worker(worker("a")) == nullptr; }));
  a->faulty.connect();
  EXPECT_TRUE(wait_until([&] { return b->view()->worker(worker("a")) != nullptr; }));
}

TEST_F(ClusterMemberTest, DuplicateIdIsReportedUntilOtherLeaves) {
  auto a = member("a");
  auto b = member("b");
  const auto seen = [&] {
    const ClusterViewPtr view = b->view();
    const WorkerInfo* there = view->worker(worker("a"));
    return there == nullptr ? "" : there->address;
  };
  ASSERT_TRUE(wait_until([&] { return has_ring(*a, {"a", "b"}) && seen() == "a:7480"; }));
  auto copy =
      std::make_unique<Member>(*registry_, "a", std::chrono::minutes(10), executor_, "7481");
  std::optional<Status> trouble;
  ASSERT_TRUE(wait_until([&] {
    trouble = a->member->trouble();
    return seen() == "a:7481" && trouble;
  }));
  EXPECT_NE(trouble->message().find("a:7481"), std::string::npos);
  EXPECT_FALSE(copy->member->trouble());
  EXPECT_FALSE(b->member->trouble());
  // Its own change does not make it take the place back.
  WorkerInfo self = b->member->self();
  self.capacity_bytes = 2 * kTiB;
  b->member->publish(self);
  ASSERT_TRUE(wait_until([&] {
    const ClusterViewPtr view = a->view();
    const WorkerInfo* there = view->worker(worker("b"));
    return there != nullptr && there->capacity_bytes == self.capacity_bytes;
  }));
  EXPECT_EQ(seen(), "a:7481");
  copy.reset();
  EXPECT_TRUE(wait_until([&] { return seen() == "a:7480" && !a->member->trouble(); }));
}

// Its record of an earlier run, say, at another address.
TEST_F(ClusterMemberTest, RecordBeforeItsOwnIsNoNamesake) {
  const WorkerInfo before{.id = worker("a"), .address = "elsewhere:7480", .capacity_bytes = kTiB};
  ASSERT_TRUE(executor_.block_on(registry_->commit(
      Context::background(), {.puts = {{worker_key(before.id), encode_worker(before)}}})));
  SlowToGrant faulty(*registry_);
  const auto seen = SharedPromise<bool>::make();
  ClusterMemberOptions options{.cluster = "test", .ttl = std::chrono::minutes(10)};
  options.self = {.id = before.id, .address = "a:7480", .capacity_bytes = kTiB};
  options.on_view = [&, first = true](const ClusterViewPtr& view) mutable {
    if (view->worker(before.id) != nullptr && std::exchange(first, false)) seen->set(true);
  };
  auto member = ClusterMember::start(faulty, std::move(options), executor_);
  EXPECT_TRUE(executor_.block_on(seen->wait(Context::background(), "the first view")));
  const auto trouble = member->trouble();
  EXPECT_FALSE(trouble) << trouble->to_string();
  faulty.gate->set(true);
  EXPECT_TRUE(wait_until([&] {
    const ClusterViewPtr view = member->views().view();
    return view->worker(before.id)->address == "a:7480";
  }));
  EXPECT_FALSE(member->trouble());
  executor_.block_on(member->stop(Context::background().with_timeout(seconds(5))));
}

TEST_F(ClusterMemberTest, NewerReturnsTheNextView) {
  auto a = member("a");
  ASSERT_TRUE(wait_until([&] { return has_ring(*a, {"a"}); }));
  const RegistryRevision seen = a->view()->revision;
  auto waiting =
      boost::asio::co_spawn(executor_.any(), a->member->views().newer(Context::background(), seen),
                            boost::asio::use_future);
  auto b = member("b");
  const auto news = waiting.get();
  ASSERT_TRUE(news);
  EXPECT_GT((*news)->revision, seen);
  const auto nothing = executor_.block_on(a->member->views().newer(
      Context::background().with_timeout(milliseconds(1)), RegistryRevision{1} << 60));
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code(), StatusCode::kTimedOut);
}

}  // namespace
}  // namespace leat
