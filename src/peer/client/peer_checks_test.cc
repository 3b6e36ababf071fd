// SPDX-License-Identifier: Apache-2.0
// Workers that accept this worker's requests, that reject them, and that do not respond.
#include "peer/client/peer_checks.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "auth/request_verifier.h"
#include "http/server/server.h"
#include "peer/fake_cluster_test.h"
#include "wire/peer_error.h"

namespace leat {
namespace {

using testing::worker_id;

SecretSetPtr new_secret() {
  return std::make_shared<const SecretSet>(SecretSet::parse(make_secret(), "test").value());
}

Task<HttpResponse> answer(Result<PrincipalPtr> who) {
  if (who) co_return HttpResponse{.status = 204};
  co_return peer_error_response(kHttpUnsigned, who.error(), 1);
}

class PeerChecksTest : public ::testing::Test {
 protected:
  PeerChecksTest() {
    const SecretSetPtr secret = secret_;
    Token token = issue(secret->signing(), TokenClaims::of_worker(worker_id(9))).value();
    signer_ = std::make_shared<RequestSigner>(std::move(token));
    checks_ = std::make_unique<PeerChecks>(
        [this](const WorkerInfo& info) {
          return PeerClient::make({.address = info.address,
                                   .worker = info.id,
                                   .ping_timeout = std::chrono::seconds(30)},
                                  signer_, executor_);
        },
        executor_);
  }
  ~PeerChecksTest() override {
    for (auto& server : servers_) executor_.block_on(server->stop());
  }

  // A worker with this secret and a clock that is `ahead_s` seconds ahead.
  WorkerInfo serve(uint8_t number, const SecretSetPtr& secret, int64_t ahead_s) {
    RequestVerifierOptions options;
    options.self = worker_id(number);
    options.now = [this, number] { return seconds_now() + ahead_s_[number]; };
    ahead_s_[number] = ahead_s;
    auto verifier = std::make_shared<RequestVerifier>(secret, std::move(options));
    HttpRouter router;
    router.add("GET", "/peer/v1/ping", [verifier](Context, HttpRequest request) {
      return answer(verifier->verify(request));
    });
    servers_.push_back(
        *HttpServer::start(*HttpEndpoint::parse("127.0.0.1:0"), std::move(router), {}, executor_));
    return {.id = worker_id(number), .address = servers_.back()->endpoint().to_string()};
  }

  const SecretSetPtr secret_ = new_secret();
  std::array<std::atomic<int64_t>, 8> ahead_s_{};
  Executor executor_;
  std::shared_ptr<RequestSigner> signer_;
  std::vector<std::unique_ptr<HttpServer>> servers_;
  std::unique_ptr<PeerChecks> checks_;
};

TEST_F(PeerChecksTest, RejectingWorkersAreReported) {
  const WorkerInfo good = serve(1, secret_, 0);
  const WorkerInfo late = serve(2, secret_, -3600);
  const WorkerInfo foreign = serve(3, new_secret(), 0);
  WorkerInfo dead = serve(4, secret_, 0);
  executor_.block_on(servers_.back()->stop());
  servers_.pop_back();
  executor_.block_on(checks_->ping_all({good, late, foreign, dead}));
  auto troubles = checks_->failures();
  EXPECT_EQ(troubles.size(), 3u);
  ASSERT_TRUE(troubles.contains(late.id) && troubles.contains(foreign.id));
  EXPECT_TRUE(troubles.at(late.id).rejected);
  EXPECT_TRUE(troubles.at(late.id).why.to_string().contains("NTP"));
  EXPECT_TRUE(troubles.at(foreign.id).rejected);
  EXPECT_TRUE(troubles.at(foreign.id).why.to_string().contains("secret"));
  ASSERT_TRUE(troubles.contains(dead.id));
  EXPECT_FALSE(troubles.at(dead.id).rejected);

  ahead_s_[2] = 0;
  executor_.block_on(checks_->ping_all({late}));
  EXPECT_FALSE(checks_->failures().contains(late.id)) << "its clock was set";
  checks_->keep_only({{good.id, good}});
  EXPECT_TRUE(checks_->failures().empty());
}

TEST_F(PeerChecksTest, ManyWorkersArePingedAtOnce) {
  std::vector<WorkerInfo> all(100, serve(1, secret_, 0));
  executor_.block_on(checks_->ping_all(all));
  EXPECT_TRUE(checks_->failures().empty());
}

}  // namespace
}  // namespace leat
