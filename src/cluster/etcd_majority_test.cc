// SPDX-License-Identifier: Apache-2.0
// One of etcd's three members is killed and comes back. Clients continue, whether that member leads
// or not, and whether the registry uses it or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "cluster/election.h"
#include "cluster/etcd_registry.h"
#include "cluster/etcd_test.h"
#include "cluster/recorded_events_test.h"
#include "cluster/registry_cache.h"
#include "cluster/registry_session.h"
#include "cluster/wait_until_test.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EtcdServers;
using testing::RecordedEvents;
using testing::wait_until;

constexpr auto kPatience = seconds(30);
constexpr auto kTtl = seconds(6);

struct Victim {
  const char* name;
  bool leads;
  bool is_asked;
};

class EtcdMajorityTest : public ::testing::TestWithParam<Victim> {
 protected:
  void SetUp() override {
    servers_ = EtcdServers::start(3);
    ASSERT_TRUE(servers_) << EtcdServers::kHowToGetIt;
    const size_t leader = servers_->leader();
    victim_ = GetParam().leads ? leader : (leader + 1) % 3;
    EtcdOptions options = servers_->options();
    options.request_timeout = seconds(1);
    const size_t asked = GetParam().is_asked ? victim_ : (victim_ + 1) % 3;
    std::ranges::rotate(options.endpoints,
                        options.endpoints.begin() + static_cast<std::ptrdiff_t>(asked));
    registry_ = EtcdRegistry::create(options);
    begin();
  }
  void TearDown() override {
    if (!registry_) return;
    const Context context = Context::background().with_timeout(seconds(5));
    executor_.block_on(election_->stop(context));
    executor_.block_on(session_->stop(context));
    executor_.block_on(cache_->stop());
    stop_.request_stop();
    auto ended = executor_.block_on(follower_ended_->wait(context, "the end of a follower"));
    EXPECT_TRUE(ended);
  }

  // Puts the next number exactly once: after a lost answer it looks up the outcome.
  void put_next() {
    const std::string value = std::to_string(++number_);
    for (const auto end = Clock::now() + kPatience; Clock::now() < end;) {
      auto made = executor_.block_on(
          registry_->commit(patient(), {.conditions = {{"n", changed_}}, .puts = {{"n", value}}}));
      if (made) {
        changed_ = *made;
        return;
      }
      const StatusCode why = made.error().code();
      ASSERT_TRUE(why == StatusCode::kUnavailable || why == StatusCode::kVersionChanged)
          << made.error().to_string();
      auto view = executor_.block_on(registry_->list(patient(), "n"));
      if (view && !view->entries.empty() && view->entries[0].value == value) {
        changed_ = view->entries[0].changed;
        return;
      }
    }
    FAIL() << "nothing can be put any more";
  }
  void put_for(Clock::duration time) {
    const auto end = Clock::now() + time;
    do {
      ASSERT_NO_FATAL_FAILURE(put_next());
    } while (Clock::now() < end);
  }
  void expect_all_is_known() {
    ASSERT_TRUE(recorded_.wait_for_revision(changed_));
    auto view = executor_.block_on(registry_->list(patient(), ""));
    ASSERT_TRUE(view) << view.error().to_string();
    EXPECT_TRUE(wait_until([&] { return cache_->view()->entries == view->entries; }));
    ASSERT_EQ(view->entries.size(), 3u);
    EXPECT_EQ(view->entries[0].key, "leader");
    EXPECT_EQ(view->entries[1].key, "n");
    EXPECT_EQ(view->entries[1].value, std::to_string(number_));
    EXPECT_EQ(view->entries[2].key, "workers/a");
  }
  // Neither was lost since `condition`, which the lease depends on, too.
  void expect_still_leads(RegistryLease lease, const RegistryChange::Condition& condition) {
    EXPECT_EQ(session_->lease(), lease);
    ASSERT_TRUE(election_->leads());
    EXPECT_EQ(election_->condition()->changed, condition.changed);
    for (const RegistryEntry& entry : cache_->view()->entries) {
      EXPECT_EQ(entry.lease, entry.key == "n" ? 0 : lease) << entry.key;
    }
    EXPECT_EQ(leases_, 1) << "another lease was taken in between";
  }

  Context patient() { return Context::background().with_timeout(kPatience); }

  Executor executor_;
  std::shared_ptr<EtcdServers> servers_;
  size_t victim_ = 0;
  std::unique_ptr<EtcdRegistry> registry_;
  std::unique_ptr<RegistryCache> cache_;
  std::unique_ptr<RegistrySession> session_;
  std::unique_ptr<Election> election_;
  RecordedEvents recorded_;
  int number_ = 0;

 private:
  void begin() {
    session_ = RegistrySession::start(
        *registry_, {.ttl = kTtl, .changed = [this](RegistryLease) { ++leases_; }}, executor_);
    session_->put("workers/a", "a");
    election_ = Election::start(*registry_, *session_, {.name = "a"}, executor_);
    cache_ = RegistryCache::start(*registry_, "", {}, executor_);
    ASSERT_TRUE(wait_until([&] { return election_->leads(); }));
    put_next();
    executor_.spawn(follow(*registry_, stop_.get_token(), changed_, recorded_, follower_ended_));
  }

  // Watches like a client that needs each change: after an end it continues from the last revision,
  // which the next member may not have reached yet.
  static Task<> follow(Registry& registry, std::stop_token stop, RegistryRevision from,
                       RecordedEvents recorded, std::shared_ptr<SharedPromise<bool>> ended) {
    const Context context = Context::background().with_cancel(stop);
    while (!context.cancelled()) {
      Result<> over = co_await registry.watch(context, "n", std::max(from, recorded.revision()),
                                              recorded.sink());
      if (context.cancelled()) break;
      const StatusCode why = over.error().code();
      EXPECT_TRUE(why == StatusCode::kUnavailable || why == StatusCode::kOutOfRange)
          << over.error().to_string();
      Result<> slept = co_await sleep_for(context, milliseconds(20));
      static_cast<void>(slept);
    }
    ended->set(true);
  }

  std::atomic<int> leases_ = 0;
  RegistryRevision changed_ = 0;  // revision of the last put of the number
  std::stop_source stop_;
  const std::shared_ptr<SharedPromise<bool>> follower_ended_ = SharedPromise<bool>::make();
};

TEST_P(EtcdMajorityTest, AllGoesOnWithoutOneOfThree) {
  const RegistryLease lease = session_->lease();
  const auto condition = election_->condition();
  ASSERT_TRUE(condition);
  for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(put_next());
  ASSERT_NO_FATAL_FAILURE(expect_all_is_known());

  servers_->end(victim_);
  put_for(kTtl + seconds(1));  // so the lease must have been renewed without it
  ASSERT_NO_FATAL_FAILURE(expect_all_is_known());
  ASSERT_NO_FATAL_FAILURE(expect_still_leads(lease, *condition));

  ASSERT_TRUE(servers_->launch(victim_));
  ASSERT_TRUE(servers_->wait_until_healthy(victim_));
  for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(put_next());
  ASSERT_NO_FATAL_FAILURE(expect_all_is_known());
  ASSERT_NO_FATAL_FAILURE(expect_still_leads(lease, *condition));
  const auto again = EtcdRegistry::create(servers_->options_of(victim_));
  auto seen = executor_.block_on(again->list(patient(), "n"));
  ASSERT_TRUE(seen) << seen.error().to_string();
  EXPECT_EQ(seen->entries.at(0).value, std::to_string(number_)) << "it has caught up";

  const auto events = recorded_.events();
  ASSERT_EQ(events.size(), static_cast<size_t>(number_) - 1);
  for (size_t i = 0; i < events.size(); ++i) {
    ASSERT_EQ(events[i].entry.value, std::to_string(i + 2)) << "each once and in order";
  }
}

INSTANTIATE_TEST_SUITE_P(Victims, EtcdMajorityTest,
                         ::testing::Values(Victim{"leader_asked", true, true},
                                           Victim{"leader_not_asked", true, false},
                                           Victim{"follower_asked", false, true},
                                           Victim{"follower_not_asked", false, false}),
                         [](const auto& victim) { return std::string(victim.param.name); });

}  // namespace
}  // namespace leat
