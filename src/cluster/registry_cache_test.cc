// SPDX-License-Identifier: Apache-2.0
// A mirror of a real etcd that stops and returns, and of one with a compacted history.
#include "cluster/registry_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "cluster/embedded_registry.h"
#include "cluster/etcd_test.h"
#include "cluster/faulty_registry_test.h"
#include "cluster/wait_until_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EtcdServers;
using testing::FaultyRegistry;

constexpr auto kPatience = seconds(30);

class RegistryCacheTest : public ::testing::Test {
 protected:
  // Stops the mirror before the registry is destroyed.
  struct Ending {
    RegistryCacheTest& test;
    ~Ending() {
      if (test.cache_) test.executor_.block_on(test.cache_->stop());
    }
  };

  void start_cache(Registry& registry) {
    RegistryCacheOptions options{.backoff_min = milliseconds(20), .backoff_max = milliseconds(200)};
    options.changed = [this](const RegistryView& view) {
      std::lock_guard lock(mutex_);
      EXPECT_TRUE(view.revision > told_ || goes_back_);
      told_ = view.revision;
      more_.notify_all();
    };
    cache_ = RegistryCache::start(registry, "w/", options, executor_);
    auto seen =
        executor_.block_on(cache_->first_view(Context::background().with_timeout(kPatience)));
    ASSERT_TRUE(seen) << seen.error().to_string();
  }
  RegistryRevision put(Registry& registry, const std::string& key, const std::string& value) {
    auto revision = executor_.block_on(
        registry.commit(Context::background().with_timeout(kPatience), {.puts = {{key, value}}}));
    EXPECT_TRUE(revision) << revision.error().to_string();
    return revision.value_or(0);
  }
  // Retries while there is no answer: members may have to elect a leader first.
  RegistryRevision commit_patiently(Registry& registry, const RegistryChange& change) {
    RegistryRevision changed = 0;
    EXPECT_TRUE(testing::wait_until([&] {
      const Context context = Context::background().with_timeout(kPatience);
      changed = executor_.block_on(registry.commit(context, change)).value_or(0);
      return changed != 0;
    }));
    return changed;
  }
  bool wait_for(RegistryRevision revision) {
    std::unique_lock lock(mutex_);
    return more_.wait_for(lock, kPatience, [&] { return told_ >= revision; });
  }
  // Waits for this content at any revision.
  bool wait_for_text(const std::string& wanted) {
    return testing::wait_until([&] { return text() == wanted; });
  }
  void may_go_back() { goes_back_ = true; }
  std::string text() const {
    std::string all;
    for (const auto& entry : cache_->view()->entries) all += entry.key + "=" + entry.value + " ";
    return all;
  }

  Executor executor_;
  std::unique_ptr<RegistryCache> cache_;

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  RegistryRevision told_ = 0;
  std::atomic<bool> goes_back_ = false;
};

TEST_F(RegistryCacheTest, FollowsWhatChanges) {
  auto registry = EmbeddedRegistry::open({}, make_disk(executor_), executor_);
  ASSERT_TRUE(registry);
  const Ending ending{*this};
  put(**registry, "w/b", "1");
  put(**registry, "v", "1");
  start_cache(**registry);
  EXPECT_EQ(text(), "w/b=1 ");
  put(**registry, "w/c", "1");
  put(**registry, "w/a", "1");
  ASSERT_TRUE(wait_for(put(**registry, "w/b", "2")));
  EXPECT_EQ(text(), "w/a=1 w/b=2 w/c=1 ");
  auto removed =
      executor_.block_on((*registry)->commit(Context::background(), {.removals = {"w/b"}}));
  ASSERT_TRUE(removed);
  ASSERT_TRUE(wait_for(*removed));
  EXPECT_EQ(text(), "w/a=1 w/c=1 ");
}

TEST_F(RegistryCacheTest, KeepsItsContentDuringEtcdOutage) {
  auto servers = EtcdServers::start();
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  auto registry = EtcdRegistry::create(servers->options());
  const Ending ending{*this};
  put(*registry, "w/a", "1");
  start_cache(*registry);
  servers->end(0);
  while (!cache_->trouble()) std::this_thread::yield();
  EXPECT_EQ(text(), "w/a=1 ");
  ASSERT_TRUE(servers->launch(0));
  ASSERT_TRUE(servers->wait_until_healthy());
  ASSERT_TRUE(wait_for(put(*registry, "w/a", "2")));
  EXPECT_EQ(text(), "w/a=2 ");
  EXPECT_FALSE(cache_->trouble());
}

TEST_F(RegistryCacheTest, FollowsAtAnotherMemberWhenItsOwnHangs) {
  auto servers = EtcdServers::start(3);
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  auto registry = EtcdRegistry::create(servers->options(seconds(2)));  // tries the first one first
  EtcdOptions others = servers->options();
  others.endpoints.erase(others.endpoints.begin());
  auto elsewhere = EtcdRegistry::create(others);
  const Ending ending{*this};
  commit_patiently(*elsewhere, {.puts = {{"w/a", "1"}}});
  start_cache(*registry);
  // So the watch has started.
  ASSERT_TRUE(wait_for(commit_patiently(*elsewhere, {.puts = {{"w/b", "1"}}})));
  servers->send_signal(0, SIGSTOP);
  EXPECT_TRUE(wait_for(commit_patiently(*elsewhere, {.puts = {{"w/a", "2"}}})));
  EXPECT_EQ(text(), "w/a=2 w/b=1 ");
  servers->send_signal(0, SIGCONT);
}

TEST_F(RegistryCacheTest, RelistsAfterCompaction) {
  auto servers = EtcdServers::start();
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  auto registry = EtcdRegistry::create(servers->options());
  put(*registry, "w/a", "1");
  put(*registry, "w/gone", "1");
  FaultyRegistry faulty(*registry);
  const Ending ending{*this};
  start_cache(faulty);
  faulty.disconnect();
  while (!cache_->trouble()) std::this_thread::yield();
  auto removed =
      executor_.block_on(registry->commit(Context::background(), {.removals = {"w/gone"}}));
  ASSERT_TRUE(removed);
  const RegistryRevision last = put(*registry, "w/a", "2");
  servers->compact(last);
  faulty.connect();
  ASSERT_TRUE(wait_for(last));
  EXPECT_EQ(text(), "w/a=2 ");
}

TEST_F(RegistryCacheTest, RelistsAtHungMemberAfterCompaction) {
  auto servers = EtcdServers::start(3);
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  EtcdOptions only = servers->options_of(0), others = servers->options();
  only.request_timeout = milliseconds(300);
  others.endpoints.erase(others.endpoints.begin());
  auto registry = EtcdRegistry::create(only);
  auto elsewhere = EtcdRegistry::create(others);
  const Ending ending{*this};
  commit_patiently(*elsewhere, {.puts = {{"w/a", "1"}}});
  start_cache(*registry);
  // So the watch has started.
  ASSERT_TRUE(wait_for(commit_patiently(*elsewhere, {.puts = {{"w/gone", "1"}}})));
  servers->send_signal(0, SIGSTOP);
  ASSERT_TRUE(testing::wait_until([&] { return cache_->trouble().has_value(); }));
  EXPECT_EQ(text(), "w/a=1 w/gone=1 ");
  ASSERT_NE(commit_patiently(*elsewhere, {.removals = {"w/gone"}}), 0);
  for (const char* value : {"2", "3"}) {
    ASSERT_NE(commit_patiently(*elsewhere, {.puts = {{"w/a", value}}}), 0);
  }
  const RegistryRevision last = commit_patiently(*elsewhere, {.puts = {{"w/b", "1"}}});
  servers->compact(last, 1);
  servers->send_signal(0, SIGCONT);
  ASSERT_TRUE(wait_for(last));
  EXPECT_EQ(text(), "w/a=3 w/b=1 ");
  ASSERT_TRUE(wait_for(commit_patiently(*elsewhere, {.puts = {{"w/b", "2"}}})));
  EXPECT_EQ(text(), "w/a=3 w/b=2 ");
}

TEST_F(RegistryCacheTest, FollowsRestoredEtcdToLowerRevision) {
  auto servers = EtcdServers::start();
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  auto registry = EtcdRegistry::create(servers->options());
  const Ending ending{*this};
  may_go_back();
  put(*registry, "w/a", "1");
  ASSERT_TRUE(servers->back_up());
  start_cache(*registry);
  for (int i = 0; i < 5; ++i) put(*registry, "w/a", "2");
  ASSERT_TRUE(wait_for(put(*registry, "w/b", "1")));
  ASSERT_TRUE(servers->restore());
  EXPECT_TRUE(wait_for_text("w/a=1 "));
  put(*registry, "w/c", "1");
  EXPECT_TRUE(wait_for_text("w/a=1 w/c=1 "));
}

TEST_F(RegistryCacheTest, RestoreIsDetectedBeyondOldRevision) {
  auto servers = EtcdServers::start();
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  auto registry = EtcdRegistry::create(servers->options());
  FaultyRegistry faulty(*registry);
  const Ending ending{*this};
  put(*registry, "w/a", "1");
  ASSERT_TRUE(servers->back_up());
  start_cache(faulty);
  const RegistryRevision seen = put(*registry, "w/b", "1");
  ASSERT_TRUE(wait_for(seen));
  faulty.disconnect();
  ASSERT_TRUE(servers->restore());
  while (put(*registry, "v", "1") <= seen) {
  }
  faulty.connect();
  EXPECT_TRUE(wait_for_text("w/a=1 "));
}

TEST_F(RegistryCacheTest, FirstViewErrorHasTheCause) {
  EtcdOptions options{.endpoints = {{{}, "127.0.0.1", testing::ServerProcess::free_port()}}};
  auto registry = EtcdRegistry::create(options);
  const Ending ending{*this};
  cache_ = RegistryCache::start(*registry, "w/", {}, executor_);
  ASSERT_TRUE(testing::wait_until([&] { return cache_->trouble().has_value(); }));
  auto seen =
      executor_.block_on(cache_->first_view(Context::background().with_timeout(milliseconds(1))));
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().code(), StatusCode::kTimedOut);
  EXPECT_TRUE(seen.error().to_string().contains("cannot connect")) << seen.error().to_string();
  EXPECT_EQ(cache_->view()->revision, 0);
}

}  // namespace
}  // namespace leat
