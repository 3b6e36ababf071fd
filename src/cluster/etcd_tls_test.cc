// SPDX-License-Identifier: Apache-2.0
// The registry with mutual TLS to etcd: rejected clients and their error messages. The contract for
// accepted clients is in registry_contract_test.cc.
#include <gtest/gtest.h>

#include "cluster/etcd_registry.h"
#include "cluster/etcd_test.h"
#include "cluster/registry_cache.h"
#include "cluster/wait_until_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EtcdServers;

class EtcdTlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    servers_ = EtcdServers::start(1, EtcdServers::Transport::kTls);
    ASSERT_TRUE(servers_) << EtcdServers::kHowToGetIt;
  }

  Context patient() { return Context::background().with_timeout(seconds(20)); }
  const Certificates& certificates() const { return *servers_->certificates(); }
  std::string address() const { return servers_->options().endpoints[0].to_string(); }

  std::unique_ptr<EtcdRegistry> registry_with(const HttpTlsOptions& files) {
    EtcdOptions options = servers_->options();
    options.tls = EtcdServers::load(files);
    return EtcdRegistry::create(options);
  }
  // Every request is rejected permanently, with a message that names etcd and `why`.
  void expect_distrust(const HttpTlsOptions& files, const std::string& why) {
    const auto registry = registry_with(files);
    const auto check = [&](const Status& refused, const char* asked) {
      EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied) << asked;
      const std::string text = refused.to_string();
      EXPECT_TRUE(text.contains(address()) && text.contains(why)) << asked << ": " << text;
    };
    check(executor_.block_on(registry->list(patient(), "")).error(), "list");
    check(executor_.block_on(registry->commit(patient(), {.puts = {{"a", "x"}}})).error(),
          "commit");
    check(executor_.block_on(registry->grant(patient(), seconds(9))).error(), "grant");
    check(executor_.block_on(registry->keep_alive(patient(), 7)).error(), "keep_alive");
    check(executor_.block_on(registry->revoke(patient(), 7)).error(), "revoke");
    RegistrySink sink = [](RegistryEvents) -> Task<Result<>> { co_return Result<>(); };
    check(executor_.block_on(registry->watch(patient(), "", 1, sink)).error(), "watch");
  }

  Executor executor_;
  std::shared_ptr<EtcdServers> servers_;
};

TEST_F(EtcdTlsTest, EtcdOfAnotherAuthorityIsRejected) {
  const Certificates others;
  HttpTlsOptions files = certificates().issue({.name = "worker", .alternatives = ""});
  files.ca_file = others.ca();
  expect_distrust(files, "(unable to get local issuer certificate); check the CA");
  files.ca_file.clear();  // the system's CAs, which do not know it either
  expect_distrust(files, "(unable to get local issuer certificate); check the CA");
  files.ca_file = certificates().ca();
  auto listed = executor_.block_on(registry_with(files)->list(patient(), ""));
  ASSERT_TRUE(listed) << listed.error().to_string();
  EXPECT_TRUE(listed->entries.empty()) << "nothing was told to an etcd that was not believed";
}

TEST_F(EtcdTlsTest, CacheReportsAuthorityError) {
  const Certificates others;
  HttpTlsOptions files = certificates().issue({.name = "worker", .alternatives = ""});
  files.ca_file = others.ca();
  const auto registry = registry_with(files);
  auto cache = RegistryCache::start(*registry, "w/", {}, executor_);
  EXPECT_TRUE(testing::wait_until([&] {
    const auto trouble = cache->trouble();
    return trouble && trouble->code() == StatusCode::kPermissionDenied;
  }));
  auto seen =
      executor_.block_on(cache->first_view(Context::background().with_timeout(milliseconds(1))));
  executor_.block_on(cache->stop());
  ASSERT_FALSE(seen);
  EXPECT_TRUE(seen.error().to_string().contains("unable to get local issuer certificate"))
      << seen.error().to_string();
}

TEST_F(EtcdTlsTest, ClientWithoutValidCertificateIsRejected) {
  const std::string of_etcd = certificates().ca();
  expect_distrust({.ca_file = of_etcd}, "certificate");
  const Certificates others;
  HttpTlsOptions stranger = others.issue({.name = "worker", .alternatives = ""});
  stranger.ca_file = of_etcd;
  expect_distrust(stranger, "the other end does not trust our certificate");
  HttpTlsOptions old = certificates().issue({.name = "old", .alternatives = "", .days = -1});
  old.ca_file = of_etcd;
  expect_distrust(old, "the other end does not trust our certificate");
}

TEST_F(EtcdTlsTest, ClientWithoutTlsIsRejected) {
  EtcdOptions options = servers_->options();
  options.tls = nullptr;
  auto listed = executor_.block_on(EtcdRegistry::create(options)->list(patient(), ""));
  ASSERT_FALSE(listed);
  EXPECT_TRUE(listed.error().to_string().contains(address())) << listed.error().to_string();
}

TEST_F(EtcdTlsTest, AnEtcdThatSpeaksInClearIsNamed) {
  const auto in_clear = EtcdServers::start();
  ASSERT_TRUE(in_clear) << EtcdServers::kHowToGetIt;
  EtcdOptions options = in_clear->options();
  options.tls = servers_->options().tls;
  auto listed = executor_.block_on(EtcdRegistry::create(options)->list(patient(), ""));
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code(), StatusCode::kUnavailable) << listed.error().to_string();
  const std::string named = options.endpoints[0].to_string() + ": no TLS";
  EXPECT_TRUE(listed.error().to_string().contains(named)) << listed.error().to_string();
}

// etcd with users rejects a certificate with a common name, because that could be taken for the
// user. A client without one is identified by its login.
TEST_F(EtcdTlsTest, CertificateWithUsersHasNoCommonName) {
  servers_->add_user();
  HttpTlsOptions nameless = certificates().issue({.name = "", .alternatives = ""});
  nameless.ca_file = certificates().ca();
  EtcdOptions named = servers_->options();
  EtcdOptions options = servers_->options();
  options.tls = EtcdServers::load(nameless);
  auto nobody = executor_.block_on(EtcdRegistry::create(options)->list(patient(), ""));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code(), StatusCode::kPermissionDenied) << nobody.error().to_string();

  named.user = options.user = EtcdServers::kUser;
  named.password = options.password = EtcdServers::kPassword;
  auto refused = executor_.block_on(EtcdRegistry::create(named)->list(patient(), ""));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kPermissionDenied) << refused.error().to_string();
  EXPECT_TRUE(refused.error().to_string().contains("no CN")) << refused.error().to_string();

  const auto registry = EtcdRegistry::create(options);
  auto made = executor_.block_on(registry->commit(patient(), {.puts = {{"a", "x"}}}));
  ASSERT_TRUE(made) << made.error().to_string();
  auto listed = executor_.block_on(registry->list(patient(), ""));
  ASSERT_TRUE(listed) << listed.error().to_string();
  EXPECT_EQ(listed->entries.size(), 1u);
}

}  // namespace
}  // namespace leat
