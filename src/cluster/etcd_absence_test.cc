// SPDX-License-Identifier: Apache-2.0
// etcd is away for longer than any lease and comes back with its data: the clients recover. With
// leases of 2 s this takes as long as ten minutes with leases of 10 s would.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/units.h"
#include "cluster/cluster_member.h"
#include "cluster/election.h"
#include "cluster/etcd_registry.h"
#include "cluster/etcd_test.h"
#include "cluster/faulty_registry_test.h"
#include "cluster/registry_cache.h"
#include "cluster/registry_session.h"
#include "cluster/wait_until_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EtcdServers;
using testing::FaultyRegistry;
using testing::wait_until;

constexpr auto kPatience = seconds(30);
constexpr auto kTtl = seconds(2);

// A process's use of the registry, with its own connection and client.
struct Candidate {
  Candidate(const EtcdOptions& options, const std::string& own_name, Executor& on)
      : executor(on), name(own_name), registry(EtcdRegistry::create(options)), faulty(*registry) {
    session = RegistrySession::start(faulty, {.ttl = kTtl}, executor);
    session->put("workers/" + name, name);
    election = Election::start(faulty, *session, {.name = name}, executor);
    cache = RegistryCache::start(faulty, "", {.backoff_max = milliseconds(500)}, executor);
  }
  ~Candidate() {
    const Context context = Context::background().with_timeout(seconds(5));
    executor.block_on(election->stop(context));
    executor.block_on(session->stop(context));
    executor.block_on(cache->stop());
  }
  const RegistryEntry* entry(const RegistryView& view) const {
    const auto found = std::ranges::find(view.entries, "workers/" + name, &RegistryEntry::key);
    return found == view.entries.end() ? nullptr : &*found;
  }

  Executor& executor;
  const std::string name;
  std::unique_ptr<EtcdRegistry> registry;
  FaultyRegistry faulty;
  std::unique_ptr<RegistrySession> session;
  std::unique_ptr<Election> election;
  std::unique_ptr<RegistryCache> cache;
};

class EtcdAbsenceTest : public ::testing::Test {
 protected:
  void start(size_t members) {
    servers_ = EtcdServers::start(members);
    ASSERT_TRUE(servers_) << EtcdServers::kHowToGetIt;
    registry_ = EtcdRegistry::create(servers_->options());
  }
  // Options of clients that must notice the absence soon.
  EtcdOptions watchful() const { return servers_->options(milliseconds(500)); }
  std::unique_ptr<Candidate> candidate(const std::string& name) {
    return std::make_unique<Candidate>(watchful(), name, executor_);
  }
  // Returns an empty view if there is no answer.
  RegistryView list() {
    auto view = executor_.block_on(registry_->list(patient(), ""));
    return view.value_or(RegistryView());
  }
  // Retries while there is no answer: members may have to elect a leader first.
  RegistryRevision put(const std::string& key, const std::string& value) {
    Result<RegistryRevision> made = 0;
    EXPECT_TRUE(wait_until([&] {
      made = executor_.block_on(registry_->commit(patient(), {.puts = {{key, value}}}));
      return made || made.error().code() != StatusCode::kUnavailable;
    }));
    EXPECT_TRUE(made) << made.error().to_string();
    return made.value_or(0);
  }
  Context patient() { return Context::background().with_timeout(kPatience); }

  // Returns true if the candidates are consistent. Each has a lease with its entry bound to it.
  // Only `leader` leads, by its own lease, and each mirror equals etcd.
  bool all_is_well(std::vector<const Candidate*> candidates, const Candidate& leader) {
    const RegistryView view = list();
    const auto claim = std::ranges::find(view.entries, "leader", &RegistryEntry::key);
    if (claim == view.entries.end() || claim->value != leader.name) return false;
    return claim->lease == leader.session->lease() &&
           std::ranges::all_of(candidates, [&](const Candidate* one) {
             const RegistryLease lease = one->session->lease();
             const RegistryEntry* own = one->entry(view);
             return lease != 0 && own != nullptr && own->lease == lease &&
                    one->election->leads() == (one == &leader) &&
                    one->cache->view()->entries == view.entries && !one->cache->trouble() &&
                    !one->session->trouble();
           });
  }
  // Either may lead: on a busy machine the first leader may have lost its lease since.
  bool all_is_well_with_both(const Candidate& a, const Candidate& b) {
    return all_is_well({&a, &b}, a) || all_is_well({&a, &b}, b);
  }

  Executor executor_;
  std::shared_ptr<EtcdServers> servers_;
  std::unique_ptr<EtcdRegistry> registry_;
};

class EtcdAwayTest : public EtcdAbsenceTest, public ::testing::WithParamInterface<size_t> {};

// Kills two of three members, so that none responds; or the only one.
TEST_P(EtcdAwayTest, EtcdReturnsWithDataAfterLeasesExpired) {
  ASSERT_NO_FATAL_FAILURE(start(GetParam()));
  put("mounts/m", "1");
  auto a = candidate("a");
  ASSERT_TRUE(wait_until([&] { return a->election->leads(); }));
  auto b = candidate("b");
  ASSERT_TRUE(wait_until([&] { return all_is_well_with_both(*a, *b); }));
  const std::vector<RegistryEntry> before = a->cache->view()->entries;

  const size_t killed = GetParam() / 2 + 1;
  for (size_t member = 0; member < killed; ++member) servers_->end(member);
  ASSERT_TRUE(wait_until([&] { return a->session->lease() == 0 && b->session->lease() == 0; }));
  for (const Candidate* one : {a.get(), b.get()}) {
    EXPECT_FALSE(one->election->leads()) << one->name;
    EXPECT_TRUE(wait_until([&] { return one->session->trouble() && one->cache->trouble(); }));
    EXPECT_EQ(one->cache->view()->entries, before) << "what it had it keeps";
  }
  const auto watchful_one = EtcdRegistry::create(watchful());
  auto lost = executor_.block_on(watchful_one->commit(patient(), {.puts = {{"mounts/m", "lost"}}}));
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code(), StatusCode::kUnavailable) << lost.error().to_string();

  for (size_t member = 0; member < killed; ++member) ASSERT_TRUE(servers_->launch(member));
  ASSERT_TRUE(servers_->wait_until_healthy());
  ASSERT_TRUE(wait_until([&] { return all_is_well_with_both(*a, *b); }));
  std::vector<std::string> keys;
  for (const RegistryEntry& entry : list().entries) keys.push_back(entry.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"leader", "mounts/m", "workers/a", "workers/b"}));
  // Changes are received again, and leadership moves on.
  put("mounts/m", "2");
  EXPECT_TRUE(wait_until([&] { return all_is_well_with_both(*a, *b); }));
  const bool a_leads = a->election->leads();
  auto& leader = a_leads ? a : b;
  auto& other = a_leads ? b : a;
  leader.reset();
  EXPECT_TRUE(wait_until([&] { return all_is_well({other.get()}, *other); }));
}

INSTANTIATE_TEST_SUITE_P(Members, EtcdAwayTest, ::testing::Values(size_t{1}, size_t{3}),
                         ::testing::PrintToStringParamName());

// Here etcd runs on without the absent client, and has ended its lease.
TEST_F(EtcdAbsenceTest, WorkerReturnsAfterItsLeaseExpired) {
  ASSERT_NO_FATAL_FAILURE(start(1));
  auto a = candidate("a");
  ASSERT_TRUE(wait_until([&] { return a->election->leads(); }));
  auto b = candidate("b");
  ASSERT_TRUE(wait_until([&] { return all_is_well_with_both(*a, *b); }));
  const bool a_leads = a->election->leads();
  auto& leader = a_leads ? a : b;
  auto& other = a_leads ? b : a;
  const RegistryLease lease = leader->session->lease();
  const auto condition = leader->election->condition();
  ASSERT_TRUE(condition);

  leader->faulty.disconnect();
  ASSERT_TRUE(wait_until([&] { return all_is_well({other.get()}, *other); }));
  EXPECT_EQ(leader->entry(list()), nullptr);
  EXPECT_EQ(leader->session->lease(), 0);
  EXPECT_FALSE(leader->election->leads());
  auto late = executor_.block_on(
      registry_->commit(patient(), {.conditions = {*condition}, .puts = {{"ring", "of a"}}}));
  ASSERT_FALSE(late) << "another one has led since";
  EXPECT_EQ(late.error().code(), StatusCode::kVersionChanged) << late.error().to_string();
  put("mounts/m", "1");
  servers_->compact(put("mounts/m", "2"));

  leader->faulty.connect();
  ASSERT_TRUE(wait_until([&] { return all_is_well_with_both(*a, *b); }));
  EXPECT_NE(leader->session->lease(), lease);
  other.reset();
  EXPECT_TRUE(wait_until([&] { return all_is_well({leader.get()}, *leader); }))
      << "it stands again";
}

// Both at once: etcd is killed, and after its return its leases end before a client reaches it.
TEST_F(EtcdAbsenceTest, LeasesEndBeforeWorkersReturn) {
  ASSERT_NO_FATAL_FAILURE(start(1));
  auto a = candidate("a");
  ASSERT_TRUE(wait_until([&] { return a->election->leads(); }));
  auto b = candidate("b");
  ASSERT_TRUE(wait_until([&] { return all_is_well_with_both(*a, *b); }));
  a->faulty.disconnect();
  b->faulty.disconnect();
  servers_->end(0);
  ASSERT_TRUE(wait_until([&] { return a->session->lease() == 0 && b->session->lease() == 0; }));
  ASSERT_TRUE(servers_->launch(0));
  ASSERT_TRUE(servers_->wait_until_healthy());
  ASSERT_TRUE(wait_until([&] {
    const RegistryView view = list();
    return view.revision != 0 && view.entries.empty();
  }));
  a->faulty.connect();
  b->faulty.connect();
  EXPECT_TRUE(wait_until([&] { return all_is_well_with_both(*a, *b); }));
}

// A whole worker.
struct Worker {
  Worker(Registry& registry, const std::string& name, Executor& on) : executor(on) {
    ClusterMemberOptions options{.cluster = "test", .ttl = kTtl};
    options.self = {
        .id = WorkerId(Id128::random()), .address = name + ":7480", .capacity_bytes = kTiB};
    options.ring.debounce = milliseconds(10);
    member = ClusterMember::start(registry, std::move(options), executor);
  }
  ~Worker() { executor.block_on(member->stop(Context::background().with_timeout(seconds(5)))); }
  ClusterViewPtr view() const { return member->views().view(); }
  bool is_well_among(size_t workers) const {
    const ClusterViewPtr now = view();
    return !member->trouble() && now->workers.size() == workers &&
           now->ring.members().size() == workers;
  }

  Executor& executor;
  std::unique_ptr<ClusterMember> member;
};

// Compared with the ten minutes for which a worker keeps its place in the ring, the absence is
// short.
TEST_F(EtcdAbsenceTest, WorkersAndTheirRingAreThereAgain) {
  ASSERT_NO_FATAL_FAILURE(start(1));
  const auto registry = EtcdRegistry::create(watchful());
  Worker a(*registry, "a", executor_), b(*registry, "b", executor_);
  const auto all_are_well = [&] { return a.is_well_among(2) && b.is_well_among(2); };
  ASSERT_TRUE(wait_until(all_are_well));
  const auto epoch = a.view()->ring.epoch();
  servers_->end(0);
  for (const Worker* one : {&a, &b}) {
    ASSERT_TRUE(
        wait_until([&] { return one->member->trouble() && !one->member->election().leads(); }));
    EXPECT_EQ(one->view()->workers.size(), 2u) << "reads go on by what was known";
  }
  ASSERT_TRUE(servers_->launch(0));
  ASSERT_TRUE(wait_until(all_are_well));
  ASSERT_TRUE(
      wait_until([&] { return a.member->election().leads() != b.member->election().leads(); }));
  for (const Worker* one : {&a, &b}) {
    EXPECT_EQ(one->view()->ring.epoch(), epoch) << "nothing has moved";
  }
  WorkerInfo self = a.member->self();
  self.capacity_bytes = 2 * kTiB;
  a.member->publish(self);
  EXPECT_TRUE(wait_until([&] {
    const ClusterViewPtr view = b.view();
    const WorkerInfo* seen = view->worker(self.id);
    return seen != nullptr && seen->capacity_bytes == self.capacity_bytes;
  })) << "what changes is heard of";
}

}  // namespace
}  // namespace leat
