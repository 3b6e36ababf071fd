// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/cluster_client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "runtime/gate.h"
#include "telemetry/log.h"

namespace leat {
namespace {

using ClientPtr = std::shared_ptr<PeerClient>;

class ClusterClientImpl : public ClusterClient {
 public:
  ClusterClientImpl(ClusterClientOptions options, Executor& executor)
      : options_(std::move(options)),
        executor_(executor),
        peers_([this](const WorkerInfo& info) { return make_peer(info); }),
        fd_providers_(
            {.host_id = options_.host_id, .signer = options_.signer, .own = options_.local_files}) {
    RemoteViewSourceOptions views_options;
    views_options.seeds = options_.seeds;
    views_options.poll = [this](Context context, std::string address, RegistryRevision after) {
      return ask_view(std::move(context), std::move(address), after);
    };
    views_options.changed = [this](const ClusterViewPtr& view) { take(view); };
    views_ = RemoteViewSource::start(std::move(views_options), executor);
    snapshots_ = std::make_unique<SharedSnapshots>(*views_, peers_, executor);
    InvalidationSubscriberOptions changes;
    changes.poll = [this](Context context, size_t worker, uint64_t after) {
      return ask_changes(std::move(context), worker, after);
    };
    changes.changed = options_.on_invalidations;
    subscriber_ = InvalidationSubscriber::start(std::move(changes), executor);
    if (!options_.token_file.empty()) executor.spawn(follow_token(std::move(*gate_.enter())));
  }

  Task<Result<>> first_view(Context context) override {
    Result<> seen = co_await views_->first_view(std::move(context));
    if (seen) co_return seen;
    co_return error(seen.error().with_context(
        fmt::format("cannot reach the cluster at {}; is a worker running there, does the token "
                    "belong to it, and {}?",
                    fmt::join(options_.seeds, ", "),
                    options_.tls != nullptr
                        ? "are the options ca, certificate and key those of this cluster"
                        : "does it do without TLS, for which the options ca, certificate and key "
                          "would be needed")));
  }
  ClusterViewSource& views() override { return *views_; }
  const SharedSnapshots& snapshots() override { return *snapshots_; }

  Task<Result<std::string>> request_jobs(Context context, std::string method, std::string below,
                                         std::string body) override {
    std::vector<std::string> addresses;
    for (const auto& [id, info] : known()->workers) addresses.push_back(info.address);
    if (addresses.empty()) addresses = options_.seeds;
    // The same ticket for all workers.
    const std::string ticket = method == "POST" ? Id128::random().to_hex() : "";
    std::vector<std::string> failures;
    for (size_t i = 0; i < addresses.size() && context.check(""); ++i) {
      const std::string& address = addresses[(i + first_) % addresses.size()];
      Result<ClientPtr> client = asker(address);
      if (!client) co_return Error(client.error());
      PeerReply<std::string> reply = co_await (*client)->jobs(context, method, below, ticket, body);
      if (reply.outcome == PeerOutcome::kAnswered) co_return std::move(reply.result);
      failures.push_back(fmt::format("{}: {}", address, reply.result.error().to_string()));
    }
    co_return error(StatusCode::kUnavailable,
                    fmt::format("no worker of the cluster accepts requests about jobs: {}",
                                fmt::join(failures, "; ")));
  }

  SourcePtr source() override {
    std::lock_guard lock(mutex_);
    if (source_ == nullptr) {
      ClusterSourceOptions source;
      source.cluster = options_.identity;
      source.name = fmt::format("leat://{}", fmt::join(options_.seeds, ","));
      source.host_id = options_.host_id;
      source.trouble = [this] { return views_->trouble(); };
      source.invalidations_live = [this] { return subscriber_->lease_valid(); };
      source.fd_providers = &fd_providers_;
      source.router.io_timeout = options_.io_timeout;
      source.router.health = StoreHealth::of(
          source.name, metric_label("store", source.name) + "," +
                           metric_label("store_id", cluster_store_id(source.cluster).to_hex()));
      if (!options_.hedges) source.hedging.reads_per_hedge = 0;
      source_ = make_cluster_source(std::move(source), *views_, peers_);
    }
    return source_;
  }

  std::optional<Status> trouble() const override { return views_->trouble(); }
  size_t unresponsive() const override {
    const ClusterViewPtr view = views_->view();
    return static_cast<size_t>(std::ranges::count_if(view->ring.members(), [&](const auto& one) {
      const PeerPtr peer = peers_.find(one.worker);
      return peer != nullptr && !peer->usable();
    }));
  }

  bool used() const override {
    std::lock_guard lock(mutex_);
    return source_ != nullptr;
  }

  bool unused() const override {
    std::lock_guard lock(mutex_);
    return source_ != nullptr && source_.use_count() == 1;
  }

  Task<> stop() override {
    stopping_.request_stop();
    gate_.close();
    co_await gate_.wait_idle();
    co_await subscriber_->stop();
    co_await views_->stop();
  }

 private:
  void take(const ClusterViewPtr& view) {
    peers_.update(*view);
    fd_providers_.update(*view);
    std::lock_guard lock(mutex_);
    known_ = view;
  }
  // A copy of map_'s view, since map_ sends requests during its construction.
  ClusterViewPtr known() {
    std::lock_guard lock(mutex_);
    return known_;
  }

  PeerPtr make_peer(const WorkerInfo& info) {
    if (options_.local) {
      if (PeerPtr local = options_.local(info)) return local;
    }
    Result<ClientPtr> client = make_client(info.address, info.id, info.supports_batches());
    if (client) return *client;
    log::warning("worker {}: {}", info.address, client.error().to_string());
    return nullptr;
  }
  Result<ClientPtr> make_client(const std::string& address, const WorkerId& id,
                                bool batches = false) {
    PeerClientOptions client{.address = address, .worker = id, .tls = options_.tls};
    client.supports_batches = batches;
    return PeerClient::make(std::move(client), options_.signer, executor_);
  }

  // Long polls use connections of their own. The worker at an address is unknown before there is a
  // view, and may change later.
  Result<ClientPtr> asker(const std::string& address) {
    WorkerId there;
    for (const auto& [id, info] : known()->workers) {
      if (info.address == address) there = id;
    }
    std::lock_guard lock(mutex_);
    if (!askers_.contains(address)) forget_askers();
    Asker& asker = askers_[address];
    if (asker.client == nullptr || asker.worker != there) {
      LEAT_TRY(asker.client, make_client(address, there));
      asker.worker = there;
    }
    return asker.client;
  }

  // Workers come and go, at other addresses. A running request keeps its client alive.
  void forget_askers() {
    std::set<std::string> there(options_.seeds.begin(), options_.seeds.end());
    for (const auto& [id, info] : known_->workers) there.insert(info.address);
    std::erase_if(askers_, [&](const auto& one) { return !there.contains(one.first); });
  }

  Task<Result<ClusterViewPtr>> ask_view(Context context, std::string address,
                                        RegistryRevision after) {
    Result<ClientPtr> client = asker(address);
    if (!client) co_return Error(client.error());
    co_return co_await (*client)->view(context.with_timeout(kQuestionTime), after);
  }

  Task<Result<Invalidations>> ask_changes(Context context, size_t worker, uint64_t after) {
    std::vector<std::string> addresses;
    for (const auto& [id, info] : known()->workers) addresses.push_back(info.address);
    if (addresses.empty()) {
      co_return error(StatusCode::kUnavailable, "there is no worker of the cluster yet");
    }
    // Clients start at different workers.
    Result<ClientPtr> client = asker(addresses[(worker + first_) % addresses.size()]);
    if (!client) co_return Error(client.error());
    co_return co_await (*client)->invalidations(std::move(context), after);
  }

  // A token expires or is replaced during operation. New rights can change the visible mounts.
  Task<> follow_token(Gate::Holder) {
    const Context context = Context::background().with_cancel(stopping_.get_token());
    for (bool readable = true;;) {
      Result<> slept = co_await sleep_for(context, kTokenCheckInterval);
      if (!slept) co_return;
      const std::string file = options_.token_file;
      Result<Token> token = co_await executor_.blocking([file] { return Token::read(file); });
      if (!token && readable) log::warning("{}", token.error().to_string());
      readable = token.has_value();
      if (!token || !options_.signer->renew(*std::move(token))) continue;
      views_->force_refresh();
      log::info("the token in {} was read again", file);
    }
  }

  struct Asker {
    WorkerId worker{};
    ClientPtr client{};
  };

  // A worker replies after 8 s at the latest, with or without changes.
  static constexpr Clock::duration kQuestionTime = std::chrono::seconds(15);

  static constexpr Clock::duration kTokenCheckInterval = std::chrono::seconds(10);

  const ClusterClientOptions options_;
  Executor& executor_;
  std::stop_source stopping_;
  Gate gate_;
  const size_t first_ = Id128::random().hash64();
  mutable std::mutex mutex_;  // leaf
  ClusterViewPtr known_ = std::make_shared<const ClusterView>();
  std::map<std::string, Asker> askers_;
  SourcePtr source_;
  PeerTable peers_;
  FdProviders fd_providers_;
  std::unique_ptr<RemoteViewSource> views_;
  std::unique_ptr<SharedSnapshots> snapshots_;
  std::unique_ptr<InvalidationSubscriber> subscriber_;
};

}  // namespace

std::unique_ptr<ClusterClient> ClusterClient::start(ClusterClientOptions options,
                                                    Executor& executor) {
  return std::make_unique<ClusterClientImpl>(std::move(options), executor);
}

}  // namespace leat
