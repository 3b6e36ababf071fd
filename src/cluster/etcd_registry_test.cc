// SPDX-License-Identifier: Apache-2.0
// The registry with a faulty etcd: members that die, hang or lose their leader, and rejected users.
// Its contract without faults is in registry_contract_test.cc.
#include "cluster/etcd_registry.h"

#include <gtest/gtest.h>

#include <future>

#include "cluster/etcd_test.h"
#include "cluster/wait_until_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EtcdServers;

constexpr auto kPatience = seconds(30);
// A member that is silent for this long hangs or is cut off.
constexpr auto kSilence = seconds(2);

class EtcdRegistryTest : public ::testing::Test {
 protected:
  Context patient() { return Context::background().with_timeout(kPatience); }
  Result<RegistryRevision> put(Registry& registry, const std::string& key) {
    return executor_.block_on(registry.commit(patient(), {.puts = {{key, "x"}}}));
  }
  Result<RegistryView> list(Registry& registry) {
    return executor_.block_on(registry.list(patient(), ""));
  }
  // Retries while there is no answer, as clients do.
  Result<RegistryRevision> put_patiently(Registry& registry, const std::string& key) {
    const auto end = Clock::now() + kPatience;
    for (;;) {
      auto revision = put(registry, key);
      const bool again = !revision && revision.error().code() == StatusCode::kUnavailable;
      if (!again || Clock::now() > end) return revision;
    }
  }
  // Number of listings that etcd has answered, without its own health checks.
  static int listings_of(const EtcdServers& servers) {
    constexpr std::string_view kName =
        R"(grpc_server_handled_total{grpc_code="OK",grpc_method="Range",)"
        R"(grpc_service="etcdserverpb.KV",grpc_type="unary"} )";
    const std::string metrics = servers.metrics();
    const size_t at = metrics.find(kName);
    EXPECT_NE(at, metrics.npos);
    return at == metrics.npos ? 0 : std::stoi(metrics.substr(at + kName.size()));
  }

  Executor executor_;
};

TEST_F(EtcdRegistryTest, AnotherMemberLeadsWhenTheLeaderIsKilled) {
  auto servers = EtcdServers::start(3);
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  auto registry = EtcdRegistry::create(servers->options());
  ASSERT_TRUE(put_patiently(*registry, "before"));
  servers->end(servers->leader());
  auto after = put_patiently(*registry, "after");
  ASSERT_TRUE(after) << after.error().to_string();
  auto view = list(*registry);
  ASSERT_TRUE(view) << view.error().to_string();
  EXPECT_EQ(view->entries.size(), 2u);
}

TEST_F(EtcdRegistryTest, AMemberThatHangsIsPassedBy) {
  auto servers = EtcdServers::start(3);
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  auto registry = EtcdRegistry::create(servers->options(kSilence));
  ASSERT_TRUE(put_patiently(*registry, "before"));
  for (size_t member = 0; member < 3; ++member) {
    servers->send_signal(member, SIGSTOP);
    auto put_meanwhile = put_patiently(*registry, fmt::format("without {}", member));
    EXPECT_TRUE(put_meanwhile) << put_meanwhile.error().to_string();
    servers->send_signal(member, SIGCONT);
  }
  auto view = list(*EtcdRegistry::create(servers->options()));
  ASSERT_TRUE(view) << view.error().to_string();
  EXPECT_EQ(view->entries.size(), 4u);
}

TEST_F(EtcdRegistryTest, DisconnectedMemberEndsItsWatches) {
  auto servers = EtcdServers::start(3);
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  auto alone = EtcdRegistry::create(servers->options_of(0, kSilence));
  auto revision = put_patiently(*alone, "before");
  ASSERT_TRUE(revision);
  servers->end(1);
  servers->end(2);
  auto watched = executor_.block_on(alone->watch(
      patient(), "", *revision, [](RegistryEvents) -> Task<Result<>> { co_return Result<>(); }));
  ASSERT_FALSE(watched);
  EXPECT_EQ(watched.error().code(), StatusCode::kUnavailable) << watched.error().to_string();
  auto listed = list(*alone);
  ASSERT_FALSE(listed) << "one of three is no majority";
  EXPECT_EQ(listed.error().code(), StatusCode::kUnavailable) << listed.error().to_string();
  EXPECT_EQ(put(*alone, "lost").error().code(), StatusCode::kUnavailable);

  ASSERT_TRUE(servers->launch(1));
  auto healed = put_patiently(*alone, "after");
  EXPECT_TRUE(healed) << healed.error().to_string();
}

TEST_F(EtcdRegistryTest, AWatchOfAMemberThatHangsEnds) {
  auto servers = EtcdServers::start();
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  auto registry = EtcdRegistry::create(servers->options(kSilence));
  auto revision = put_patiently(*registry, "before");
  ASSERT_TRUE(revision);
  auto stop_etcd = [&](RegistryEvents) -> Task<Result<>> {
    servers->send_signal(0, SIGSTOP);  // once the watch has started
    co_return Result<>();
  };
  auto watched = executor_.block_on(registry->watch(patient(), "", *revision, stop_etcd));
  servers->send_signal(0, SIGCONT);
  ASSERT_FALSE(watched);
  EXPECT_EQ(watched.error().code(), StatusCode::kUnavailable) << watched.error().to_string();
}

TEST_F(EtcdRegistryTest, AWatchThatBeginsAtAMemberThatHangsEnds) {
  auto servers = EtcdServers::start();
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  auto registry = EtcdRegistry::create(servers->options(kSilence));
  auto revision = put_patiently(*registry, "before");
  ASSERT_TRUE(revision);
  servers->send_signal(0, SIGSTOP);
  auto watched = executor_.block_on(registry->watch(
      patient(), "", *revision, [](RegistryEvents) -> Task<Result<>> { co_return Result<>(); }));
  servers->send_signal(0, SIGCONT);
  ASSERT_FALSE(watched);
  EXPECT_EQ(watched.error().code(), StatusCode::kUnavailable) << watched.error().to_string();
}

TEST_F(EtcdRegistryTest, WatchOfRespondingMemberStaysOpen) {
  auto servers = EtcdServers::start();
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  auto revision = put(*EtcdRegistry::create(servers->options()), "before");
  ASSERT_TRUE(revision);
  auto registry = EtcdRegistry::create(servers->options(kSilence));
  const int listings = listings_of(*servers);
  std::stop_source stop;
  std::future<Result<>> watching = boost::asio::co_spawn(
      executor_.any(),
      registry->watch(Context::background().with_cancel(stop.get_token()), "", *revision,
                      [](RegistryEvents) -> Task<Result<>> { co_return Result<>(); }),
      boost::asio::use_future);
  // Every few seconds a watch checks with a listing that its member responds.
  EXPECT_TRUE(testing::wait_until([&] { return listings_of(*servers) >= listings + 3; },
                                  2 * kPatience, milliseconds(200)));
  stop.request_stop();
  const Result<> watched = watching.get();
  ASSERT_FALSE(watched);
  EXPECT_EQ(watched.error().code(), StatusCode::kCancelled) << watched.error().to_string();
}

// A listing of several pages has one revision, which may be compacted before the last page.
TEST_F(EtcdRegistryTest, ListingDuringCompactionIsComplete) {
  auto servers = EtcdServers::start();
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  auto registry = EtcdRegistry::create(servers->options());
  constexpr int kEntries = 5000;
  for (int i = 0; i < kEntries; i += 100) {
    RegistryChange change;
    for (int k = i; k < i + 100; ++k) change.puts.push_back({fmt::format("job/{:05}", k), "x"});
    ASSERT_TRUE(executor_.block_on(registry->commit(patient(), change)));
  }
  for (int times = 0; times < 30; ++times) {
    std::future<Result<RegistryView>> listed = boost::asio::co_spawn(
        executor_.any(), registry->list(patient(), "job/"), boost::asio::use_future);
    auto changed = put(*registry, "v");
    EXPECT_TRUE(changed) << changed.error().to_string();
    servers->compact(changed.value_or(1));
    const Result<RegistryView> view = listed.get();
    ASSERT_TRUE(view) << view.error().to_string();
    EXPECT_EQ(view->entries.size(), size_t{kEntries});
  }
}

TEST_F(EtcdRegistryTest, WhatEtcdHeldIsThereWhenItComesBack) {
  auto servers = EtcdServers::start();
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  auto registry = EtcdRegistry::create(servers->options());
  ASSERT_TRUE(put(*registry, "kept"));
  servers->end(0);
  auto gone = list(*registry);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code(), StatusCode::kUnavailable) << gone.error().to_string();
  ASSERT_TRUE(servers->launch(0));
  ASSERT_TRUE(servers->wait_until_healthy());
  auto view = list(*registry);
  ASSERT_TRUE(view) << view.error().to_string();
  EXPECT_EQ(view->entries.at(0).key, "kept");
}

TEST_F(EtcdRegistryTest, ExpiredTokenIsFetchedAgain) {
  auto servers = EtcdServers::start();
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  servers->add_user();
  EtcdOptions options = servers->options();
  options.user = EtcdServers::kUser;
  options.password = EtcdServers::kPassword;
  auto registry = EtcdRegistry::create(options);
  ASSERT_TRUE(put(*registry, "before"));
  servers->end(0);
  ASSERT_TRUE(servers->launch(0));
  ASSERT_TRUE(servers->wait_until_healthy());
  auto after = put(*registry, "after");
  EXPECT_TRUE(after) << after.error().to_string();
}

TEST_F(EtcdRegistryTest, UserWithoutRightIsRejected) {
  auto servers = EtcdServers::start();
  ASSERT_TRUE(servers) << EtcdServers::kHowToGetIt;
  servers->add_user();
  const EtcdOptions nobody = servers->options();
  EtcdOptions wrong = nobody, elsewhere = nobody;
  wrong.user = elsewhere.user = EtcdServers::kUser;
  wrong.password = "wrong";
  elsewhere.password = EtcdServers::kPassword;
  elsewhere.prefix = "/other/";
  for (const EtcdOptions& options : {nobody, wrong, elsewhere}) {
    auto listed = list(*EtcdRegistry::create(options));
    ASSERT_FALSE(listed);
    EXPECT_EQ(listed.error().code(), StatusCode::kPermissionDenied) << listed.error().to_string();
    EXPECT_FALSE(listed.error().to_string().contains(EtcdServers::kPassword));
    const bool told = listed.error().to_string().contains("cluster.registry_password_file");
    EXPECT_EQ(told, options.password == "wrong") << listed.error().to_string();
  }
}

}  // namespace
}  // namespace leat
