// SPDX-License-Identifier: Apache-2.0
#include "scale/one_worker.h"

#include "scale/figures.h"
#include "scale/fleet.h"

namespace leat::scale {

SecretSetPtr OneWorker::secrets() {
  static const auto set =
      std::make_shared<const SecretSet>(must(SecretSet::parse(make_secret(), "made")));
  return set;
}

OneWorker::OneWorker(const Setting& setting)
    : self_(made_worker(0, 0).id),
      verifier_(secrets(), {.self = self_}),
      catalog_(Catalog::create({}, sources_, executor)),
      fetcher_(Fetcher::create({}, nullptr, sources_, executor)),
      own_({.self = self_,
            .map = map_,
            .catalog = *catalog_,
            .fetcher = *fetcher_,
            .policy_of = [](const std::string&) { return nullptr; }}),
      door_({.own = own_,
             .map = map_,
             .changes = changes,
             .verifier = verifier_,
             .follows = [] { return true; },
             .told = [this](PeerChanges news) { changes.append(std::move(news.changes)); }}),
      signer_(std::make_shared<RequestSigner>(
          must(issue(secrets()->signing(), TokenClaims::of_worker(made_worker(1, 0).id))))) {
  const auto capacities = equal_capacities(setting.workers, setting.capacity_bytes);
  map_.set(std::make_shared<const ClusterView>(view_of(made_entries(capacities), "train")));
  HttpServerOptions serving{.connections_max = 1u << 20};
  server_ = must(HttpServer::start({{}, "127.0.0.1", 0}, door_.router(), serving, executor));
}

OneWorker::~OneWorker() {
  executor.wait(server_->stop());
  executor.wait(catalog_->stop());
  executor.wait(fetcher_->stop());
}

std::shared_ptr<PeerClient> OneWorker::client() {
  // It lives, however long an answer takes.
  const auto patience = std::chrono::hours(1);
  PeerClientOptions options{.address = server_->endpoint().to_string(),
                            .worker = self_,
                            .connect_timeout = patience,
                            .ping_timeout = patience,
                            .watch = {.patience = patience}};
  return must(PeerClient::make(options, signer_, executor));
}

uint16_t OneWorker::port() const {
  return server_->endpoint().port;
}

Task<Result<>> ask_changes(std::shared_ptr<PeerClient> client, uint64_t after) {
  Result<PeerChanges> news = co_await client->changes(Context::background(), after);
  co_return news ? Result<>() : Result<>(Error(news.error()));
}

}  // namespace leat::scale
