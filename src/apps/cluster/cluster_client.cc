// SPDX-License-Identifier: Apache-2.0
#include "apps/cluster/cluster_client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <mutex>

#include "runtime/activity.h"
#include "telemetry/log.h"

namespace leat {
namespace {

using ClientPtr = std::shared_ptr<PeerClient>;

class ClusterClientImpl : public ClusterClient {
 public:
  ClusterClientImpl(ClusterClientOptions options, Executor& executor)
      : options_(std::move(options)),
        executor_(executor),
        peers_([this](const WorkerInfo& info) { return make_peer(info); }) {
    RemoteMapOptions map;
    map.seeds = options_.seeds;
    map.ask = [this](Context context, std::string address, RegistryRevision after) {
      return ask_view(std::move(context), std::move(address), after);
    };
    map.changed = [this](const ClusterViewPtr& view) { take(view); };
    map_ = RemoteMap::start(std::move(map), executor);
    snapshots_ = std::make_unique<SharedSnapshots>(*map_, peers_, executor);
    ChangeFollowerOptions changes;
    changes.ask = [this](Context context, size_t worker, uint64_t after) {
      return ask_changes(std::move(context), worker, after);
    };
    changes.changed = options_.changed;
    follower_ = ChangeFollower::start(std::move(changes), executor);
    if (!options_.token_file.empty()) executor.spawn(follow_token(std::move(*activity_.enter())));
  }

  Task<Result<>> first_view(Context context) override {
    Result<> seen = co_await map_->first_view(std::move(context));
    if (seen) co_return seen;
    co_return error(seen.error().with_context(
        fmt::format("cannot reach the cluster at {}; is a worker running there, and does the "
                    "token belong to it?",
                    fmt::join(options_.seeds, ", "))));
  }
  ClusterMap& map() override { return *map_; }
  const SharedSnapshots& snapshots() override { return *snapshots_; }

  SourcePtr source() override {
    std::lock_guard lock(mutex_);
    if (source_ == nullptr) {
      ClusterSourceOptions source;
      source.cluster = options_.identity;
      source.name = fmt::format("leat://{}", fmt::join(options_.seeds, ","));
      source.trouble = [this] { return map_->trouble(); };
      source_ = make_cluster_source(std::move(source), *map_, peers_);
    }
    return source_;
  }

  bool used() const override {
    std::lock_guard lock(mutex_);
    return source_ != nullptr;
  }

  Task<> stop() override {
    stopping_.request_stop();
    activity_.close();
    co_await activity_.wait_idle();
    co_await follower_->stop();
    co_await map_->stop();
  }

 private:
  void take(const ClusterViewPtr& view) {
    peers_.update(*view);
    std::lock_guard lock(mutex_);
    known_ = view;
  }
  // As map_ has it, which begins to ask before it is there.
  ClusterViewPtr known() {
    std::lock_guard lock(mutex_);
    return known_;
  }

  PeerPtr make_peer(const WorkerInfo& info) {
    if (options_.local) {
      if (PeerPtr local = options_.local(info)) return local;
    }
    Result<ClientPtr> client = make_client(info.address, info.id);
    if (client) return *client;
    log::warning("worker {}: {}", info.address, client.error().to_string());
    return nullptr;
  }
  Result<ClientPtr> make_client(const std::string& address, const WorkerId& id) {
    PeerClientOptions client{.address = address, .worker = id, .tls = options_.tls};
    return PeerClient::make(std::move(client), options_.signer, executor_);
  }

  // Long questions have connections of their own. Who is at an address is not known before there is
  // a view, and may be another one later.
  Result<ClientPtr> asker(const std::string& address) {
    WorkerId there;
    for (const auto& [id, info] : known()->workers) {
      if (info.address == address) there = id;
    }
    std::lock_guard lock(mutex_);
    Asker& asker = askers_[address];
    if (asker.client == nullptr || asker.worker != there) {
      LEAT_TRY(asker.client, make_client(address, there));
      asker.worker = there;
    }
    return asker.client;
  }

  Task<Result<ClusterViewPtr>> ask_view(Context context, std::string address,
                                        RegistryRevision after) {
    Result<ClientPtr> client = asker(address);
    if (!client) co_return Error(client.error());
    co_return co_await (*client)->view(context.with_timeout(kQuestionTime), after);
  }

  Task<Result<PeerChanges>> ask_changes(Context context, size_t worker, uint64_t after) {
    std::vector<std::string> addresses;
    for (const auto& [id, info] : known()->workers) addresses.push_back(info.address);
    if (addresses.empty()) {
      co_return error(StatusCode::kUnavailable, "no worker of the cluster is known");
    }
    // Clients begin at different workers.
    Result<ClientPtr> client = asker(addresses[(worker + first_) % addresses.size()]);
    if (!client) co_return Error(client.error());
    co_return co_await (*client)->changes(context.with_timeout(kQuestionTime), after);
  }

  // A token ends or is exchanged while all goes on. With other rights there are other mounts.
  Task<> follow_token(Activity::Token) {
    const Context context = Context::background().with_cancel(stopping_.get_token());
    for (bool readable = true;;) {
      Result<> slept = co_await sleep_for(context, kTokenLookedAt);
      if (!slept) co_return;
      const std::string file = options_.token_file;
      Result<Token> token = co_await executor_.blocking([file] { return Token::read(file); });
      if (!token && readable) log::warning("{}", token.error().to_string());
      readable = token.has_value();
      if (!token || !options_.signer->renew(*std::move(token))) continue;
      map_->ask_anew();
      log::info("the token in {} was read again", file);
    }
  }

  struct Asker {
    WorkerId worker{};
    ClientPtr client{};
  };

  // A worker answers after 8 s, news or not.
  static constexpr Clock::duration kQuestionTime = std::chrono::seconds(15);

  static constexpr Clock::duration kTokenLookedAt = std::chrono::seconds(10);

  const ClusterClientOptions options_;
  Executor& executor_;
  std::stop_source stopping_;
  Activity activity_;
  const size_t first_ = Id128::random().hash64();
  mutable std::mutex mutex_;  // leaf
  ClusterViewPtr known_ = std::make_shared<const ClusterView>();
  std::map<std::string, Asker> askers_;
  SourcePtr source_;
  PeerTable peers_;
  std::unique_ptr<RemoteMap> map_;
  std::unique_ptr<SharedSnapshots> snapshots_;
  std::unique_ptr<ChangeFollower> follower_;
};

}  // namespace

std::unique_ptr<ClusterClient> ClusterClient::start(ClusterClientOptions options,
                                                    Executor& executor) {
  return std::make_unique<ClusterClientImpl>(std::move(options), executor);
}

}  // namespace leat
