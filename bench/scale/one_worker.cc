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
    : self_(synthetic_worker(0, 0).id),
      verifier_(secrets(), {.self = self_}),
      catalog_(Catalog::create({}, sources_, executor)),
      fetcher_(Fetcher::create({}, nullptr, sources_, executor)),
      service_({.self = self_,
                .views = views_,
                .catalog = *catalog_,
                .fetcher = *fetcher_,
                .policy_of = [](const std::string&) { return nullptr; }}),
      peer_server_({.service = service_,
                    .views = views_,
                    .changes = changes,
                    .verifier = verifier_,
                    .view_is_current = [] { return true; },
                    .on_invalidations =
                        [this](Invalidations news) { changes.append(std::move(news.items)); }}),
      signer_(std::make_shared<RequestSigner>(
          must(issue(secrets()->signing(), TokenClaims::of_worker(synthetic_worker(1, 0).id))))) {
  const auto capacities = equal_capacities(setting.workers, setting.capacity_bytes);
  views_.set(std::make_shared<const ClusterView>(view_of(synthetic_entries(capacities), "train")));
  HttpServerOptions serving{.connections_max = 1u << 20};
  server_ = must(HttpServer::start({{}, "127.0.0.1", 0}, peer_server_.router(), serving, executor));
}

OneWorker::~OneWorker() {
  executor.block_on(server_->stop());
  executor.block_on(catalog_->stop());
  executor.block_on(fetcher_->stop());
}

std::shared_ptr<PeerClient> OneWorker::client() {
  // It stays connected, however long a response takes.
  const auto timeout = std::chrono::hours(1);
  PeerClientOptions options{.address = server_->endpoint().to_string(),
                            .worker = self_,
                            .connect_timeout = timeout,
                            .ping_timeout = timeout,
                            .failure_detector = {.ping_after = timeout}};
  return must(PeerClient::make(options, signer_, executor));
}

uint16_t OneWorker::port() const {
  return server_->endpoint().port;
}

Task<Result<>> request_changes(std::shared_ptr<PeerClient> client, uint64_t after) {
  Result<Invalidations> changes = co_await client->invalidations(Context::background(), after);
  co_return changes ? Result<>() : Result<>(Error(changes.error()));
}

}  // namespace leat::scale
