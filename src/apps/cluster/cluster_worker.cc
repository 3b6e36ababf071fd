// SPDX-License-Identifier: Apache-2.0
#include "apps/cluster/cluster_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "apps/cluster/cluster_mounts.h"
#include "apps/cluster/cluster_options.h"
#include "apps/cluster/copy_places.h"
#include "apps/cluster/job_door.h"
#include "apps/cluster/job_stage.h"
#include "apps/cluster/rejected_workers.h"
#include "apps/cluster/worker_news.h"
#include "catalog/catalog.h"
#include "cluster/cluster_records.h"
#include "cluster/lost_cache.h"
#include "cluster/signed_registry.h"
#include "cluster/view_signal.h"
#include "doors/peer/own_peer.h"
#include "doors/peer/peer_door.h"
#include "doors/peer/snapshots/snapshot_keeper.h"
#include "http/server.h"
#include "model/mount_entry.h"
#include "peer/batch.h"
#include "peer/cluster_source.h"
#include "peer/hand_over_source.h"
#include "peer/peer_client.h"
#include "peer/replicas/replica_source.h"
#include "peer/trust/request_verifier.h"
#include "peer/trust/secret_record_signer.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr unsigned kConnectionsMax = 8'192;
constexpr unsigned kTurnedAwayMax = 256;
// Bound of a request body: a batch, or invalidations from another worker.
constexpr uint64_t kBodyBytesMax = kBatchRequestBytesMax;
constexpr Clock::duration kSecretsLookedAt = std::chrono::seconds(10);
// Maximum wait of a change until this worker sees it.
constexpr Clock::duration kSeenHereMax = std::chrono::seconds(2);
// Retry interval of mounts that this host could not open.
constexpr Clock::duration kMountsTriedAgain = std::chrono::seconds(30);

// The share of a worker's in-flight memory for bytes from other workers.
constexpr uint64_t kReplicaMemoryShare = 8;

FetcherOptions of_replicas(FetcherOptions options) {
  options.memory_bytes_max /= kReplicaMemoryShare;
  return options;
}
FetcherOptions without_replicas(FetcherOptions options) {
  options.memory_bytes_max -= options.memory_bytes_max / kReplicaMemoryShare;
  return options;
}

// Memory for responses has a lower bound, however small the memory of reads is.
AnswerRoomOptions room_for_answers(const FetcherOptions& reads) {
  return {.bytes_max = std::max(reads.memory_bytes_max, 4 * kOwnReadBytesMax)};
}

class ClusterWorkerImpl : public ClusterWorker {
 public:
  ClusterWorkerImpl(ClusterWorkerOptions options, std::unique_ptr<Registry> registry,
                    std::unique_ptr<SecretFile> secrets, std::shared_ptr<RequestSigner> signer,
                    HostCache& store, Executor& executor);

  Result<> begin();

  WorkerInfo self() const override { return member_->self(); }
  ClusterViewPtr view() const override { return map_.view(); }
  std::optional<Status> trouble() const override {
    const auto trouble = member_->trouble();
    return trouble ? trouble : secret_trouble(registry_->rejected());
  }
  std::vector<WorkerId> rejected() const override {
    return rejected_workers(registry_->rejected());
  }
  std::optional<Status> mount_trouble(const std::string& path) const override {
    return mounts_.trouble(path);
  }
  PeerPtr own_peer() override { return own_; }
  FileGiverPtr own_files() override { return own_; }
  std::shared_ptr<RequestSigner> signer() override { return signer_; }
  Task<Result<ClusterMount>> add_mount(Context context, ClusterMount mount) override;
  Task<Result<>> remove_mount(Context context, std::string path) override;
  Task<Result<>> drain(Context context, bool back, uint64_t bandwidth) override;
  std::optional<HandOffState> hand_off() const override { return hand_off_.state(); }
  ClusterJobBook& jobs() override { return *job_book_; }
  Task<> stop() override;

 private:
  void give_files();
  WorkerInfo make_self(const HttpEndpoint& listening) const;
  PeerPtr make_peer(const WorkerInfo& info);
  SourcePtr wrap(const ClusterMount& mount, SourcePtr source);
  void take_view(const ClusterViewPtr& view);
  void note(std::string path);
  bool follows() const;
  Task<> seen_here(Context context, RegistryRevision revision);
  Task<> follow_views(Activity::Token token);
  Task<> follow_secrets(Activity::Token token);
  void take_secrets();

  const ClusterWorkerOptions options_;
  const WorkerId id_;
  HostCache& store_;
  Executor& executor_;
  const std::unique_ptr<SecretFile> secrets_;
  const std::shared_ptr<SecretRecordSigner> record_signer_;
  const std::unique_ptr<SignedRegistry> registry_;
  const std::shared_ptr<RequestSigner> signer_;
  std::stop_source stopping_;
  Activity activity_;
  ViewSignal map_;  // exists before the registry is connected
  PeerTable peers_{[this](const WorkerInfo& info) { return make_peer(info); }};
  RequestVerifier verifier_;
  SourceTable sources_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<Fetcher> fetcher_;
  SourceTable replica_sources_;  // for each store: the previous owners
  std::unique_ptr<Fetcher> replica_fetcher_;
  HostTarget target_;
  VerifyRuns verify_runs_;
  CopyPlaces copy_places_{map_, options_.local_paths};
  const SourcePtr files_;  // the cluster's namespace, on all workers
  WorkerNews news_;
  CopyRuns copy_runs_;
  HandOff hand_off_;
  ClusterMounts mounts_;
  const std::unique_ptr<SnapshotKeeper> snapshots_;
  std::shared_ptr<OwnPeer> own_;
  PeerDoor door_;
  JobDoor job_door_{door_, map_};
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<DescriptorDoor> files_door_;  // null without fd passing
  WorkerInfo self_;                             // as registered
  std::unique_ptr<ClusterMember> member_;
  std::atomic<RegistryMap*> registry_map_ = nullptr;  // owned by member_
  std::unique_ptr<ClusterJobBook> job_book_;
  std::unique_ptr<ClusterJobRunner> job_runner_;
  std::atomic<bool> jobs_begun_ = false;  // job_runner_ exists and accepts notifications
};

ClusterWorkerImpl::ClusterWorkerImpl(ClusterWorkerOptions options,
                                     std::unique_ptr<Registry> registry,
                                     std::unique_ptr<SecretFile> secrets,
                                     std::shared_ptr<RequestSigner> signer, HostCache& store,
                                     Executor& executor)
    : options_(std::move(options)),
      id_(store.worker()),
      store_(store),
      executor_(executor),
      secrets_(std::move(secrets)),
      record_signer_(std::make_shared<SecretRecordSigner>(*secrets_->current())),
      registry_(SignedRegistry::create(std::move(registry), record_signer_, options_.cluster)),
      signer_(std::move(signer)),
      verifier_(secrets_->current(), {.self = id_, .instance = Id128::random().to_hex()}),
      catalog_(Catalog::create({.scratch_directory = options_.scratch_directory, .tells_new = true},
                               sources_, executor)),
      fetcher_(Fetcher::create(without_replicas(options_.fetch), &store_, sources_, executor)),
      replica_fetcher_(
          Fetcher::create(of_replicas(options_.fetch), &store_, replica_sources_, executor)),
      target_(*fetcher_, store_, &store_, executor),
      verify_runs_(target_, executor),
      files_(make_cluster_source(
          {.cluster = options_.cluster, .name = "leat://" + options_.cluster}, map_, peers_)),
      news_({.self = id_,
             .map = map_,
             .peers = peers_,
             .catalog = *catalog_,
             .files = *files_,
             .changed = [this](std::string path) { note(std::move(path)); }},
            executor),
      copy_runs_(
          *files_, [this](const CopyGoal& goal) { return copy_places_.find(goal); }, executor),
      hand_off_(store_, map_, peers_, executor),
      mounts_(*catalog_, &store_, options_.local_paths,
              [this](const ClusterMount& mount, SourcePtr source) {
                return wrap(mount, std::move(source));
              }),
      snapshots_(SnapshotKeeper::start({.self = id_,
                                        .registry = *registry_,
                                        .map = map_,
                                        .peers = peers_,
                                        .directory = options_.scratch_directory + "/snapshots"},
                                       executor)),
      own_(std::make_shared<OwnPeer>(OwnPeerParts{
          .self = id_,
          .map = map_,
          .catalog = *catalog_,
          .fetcher = *fetcher_,
          .replicas = replica_fetcher_.get(),
          .store = &store_,
          .target = &target_,
          .verify_runs = &verify_runs_,
          .copy_runs = &copy_runs_,
          .snapshots = snapshots_.get(),
          .policy_of = [this](const std::string& path) { return mounts_.policy_of(path); },
          .gone = [this](const std::string& mount,
                         const FileRefPtr& file) { news_.gone(mount, file); },
          .heat = {.hot_bytes_s = options_.hot_bytes_s, .replicas_max = kReplicasMax}})),
      door_({.own = *own_,
             .map = map_,
             .changes = news_.log(),
             .verifier = verifier_,
             .follows = [this] { return follows(); },
             .told = [this](PeerChanges news) { news_.heard(std::move(news)); },
             .snapshots = snapshots_.get(),
             .answers = room_for_answers(options_.fetch)}) {
  catalog_->set_change_listener([this](const CatalogChange& change) { news_.found(change); });
}

Result<> ClusterWorkerImpl::begin() {
  HttpServerOptions serving{.body_bytes_max = kBodyBytesMax,
                            .connections_max = kConnectionsMax,
                            .turned_away_max = kTurnedAwayMax,
                            .tls = options_.tls};
  HttpRouter router = door_.router();
  job_door_.add_to(router);
  LEAT_TRY(server_, HttpServer::start(options_.listen, std::move(router), serving, executor_));
  give_files();
  ClusterMemberOptions member{
      .cluster = options_.cluster, .ttl = options_.ttl, .ring = options_.ring};
  member.self = self_ = make_self(server_->endpoint());
  member.on_view = [this](const ClusterViewPtr& view) { take_view(view); };
  member_ = ClusterMember::start(*registry_, std::move(member), executor_);
  registry_map_ = &member_->map();
  job_book_ = ClusterJobBook::start(*registry_, executor_);
  job_door_.open(*job_book_);
  ClusterJobRunnerParts jobs{.registry = *registry_,
                             .election = member_->election(),
                             .book = *job_book_,
                             .worker = id_.to_hex(),
                             .make_stage = [this] {
                               return make_job_stage(
                                   {.scratch_directory = options_.scratch_directory}, map_, peers_,
                                   executor_);
                             }};
  job_runner_ = ClusterJobRunner::start(std::move(jobs), executor_);
  jobs_begun_ = true;
  executor_.spawn(follow_views(std::move(*activity_.enter())));
  executor_.spawn(follow_secrets(std::move(*activity_.enter())));
  log::info("worker {} of cluster '{}' listens at {}", id_.to_hex(), options_.cluster,
            server_->endpoint().to_string());
  return {};
}

// Without fd passing, readers fetch bytes. So a failure here does not stop the worker.
void ClusterWorkerImpl::give_files() {
  if (options_.socket.empty()) return;
  DescriptorHandler handler = [this](Context context, HttpRequest request) {
    return door_.descriptor(std::move(context), std::move(request));
  };
  Result<std::unique_ptr<DescriptorDoor>> door =
      DescriptorDoor::start(options_.socket, std::move(handler), {}, executor_);
  if (door) {
    files_door_ = *std::move(door);
  } else {
    log::warning("readers on this host are given no files: {}", door.error().to_string());
  }
}

WorkerInfo ClusterWorkerImpl::make_self(const HttpEndpoint& listening) const {
  WorkerInfo self{.id = id_,
                  .address = options_.advertise,
                  .host_id = options_.host_id,
                  .host_name = options_.host_name,
                  .socket = files_door_ ? files_door_->path() : "",
                  .capacity_bytes = store_.stats().capacity_bytes,
                  .version = options_.version,
                  .protocol = kPeerProtocol};
  if (self.address.empty()) self.address = listening.to_string();
  return self;
}

PeerPtr ClusterWorkerImpl::make_peer(const WorkerInfo& info) {
  if (info.id == id_) return own_;
  PeerClientOptions options{.address = info.address, .worker = info.id, .tls = options_.tls};
  options.batches = info.answers_batches();
  Result<std::shared_ptr<PeerClient>> client =
      PeerClient::make(std::move(options), signer_, executor_);
  if (!client) {
    log::warning("worker {}: {}", info.address, client.error().to_string());
    return nullptr;
  }
  return *client;
}

SourcePtr ClusterWorkerImpl::wrap(const ClusterMount& mount, SourcePtr source) {
  return make_hand_over_source({.self = id_, .mount = mount.path}, std::move(source), map_, peers_);
}

void ClusterWorkerImpl::take_view(const ClusterViewPtr& view) {
  const ClusterViewPtr before = map_.view();
  if (before->revision == 0) note_lost_cache(*view, self_);
  peers_.update(*view);
  for (const auto& [path, mount] : view->mounts) {
    if (replica_sources_.find(mount.store) != nullptr) continue;
    replica_sources_.add(make_replica_source(id_, mount.store, map_, peers_));
  }
  map_.set(view);
  // Mounts from before this worker's start are not new.
  if (before->revision == 0 || !jobs_begun_) return;
  for (const auto& [path, mount] : view->mounts) {
    if (!before->mounts.contains(path)) job_runner_->note_change(path, true);
  }
}

void ClusterWorkerImpl::note(std::string path) {
  if (jobs_begun_) job_runner_->note_change(std::move(path), false);
}

bool ClusterWorkerImpl::follows() const {
  const RegistryMap* map = registry_map_;
  return map != nullptr && !map->trouble();
}

Task<> ClusterWorkerImpl::follow_views(Activity::Token) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  RegistryRevision seen = 0;
  while (!context.cancelled()) {
    Result<ClusterViewPtr> news =
        co_await map_.newer(context.with_timeout(kMountsTriedAgain), seen);
    if (context.cancelled()) break;
    const ClusterViewPtr view = news ? *news : map_.view();
    if (view->revision == 0) continue;
    seen = view->revision;
    co_await mounts_.follow(view);
  }
}

// Secrets are replaced during operation: see the file's format. The worker signs its registry
// records again with the first secret, so that older ones can be removed from the file.
Task<> ClusterWorkerImpl::follow_secrets(Activity::Token) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  bool sign_again = secrets_->current()->secrets.size() > 1;
  while (true) {
    Result<> slept = co_await sleep_for(context, kSecretsLookedAt);
    if (!slept) co_return;
    Result<bool> changed =
        co_await executor_.blocking([file = secrets_.get()] { return file->reload(); });
    if (!changed) log::warning("the cluster's secret: {}", changed.error().to_string());
    if (changed && *changed) {
      take_secrets();
      sign_again = true;
    }
    if (!sign_again) continue;
    Result<size_t> done = co_await registry_->sign_again(context.with_timeout(kSecretsLookedAt));
    sign_again = !done;
    if (done && *done > 0) log::info("{} of the registry's records were signed again", *done);
  }
}

void ClusterWorkerImpl::take_secrets() {
  const SecretSetPtr secrets = secrets_->current();
  verifier_.set_secrets(secrets);
  record_signer_->set_secrets(*secrets);
  registry_->keys_changed();
  Result<Token> token = issue(secrets->signing(), TokenClaims::of_worker(id_));
  if (token) signer_->renew(*std::move(token));
  log::info("the cluster's secret was read again: {} are believed", secrets->secrets.size());
}

// --- requests ------------------------------------------------------------------------------------

Task<Result<ClusterMount>> ClusterWorkerImpl::add_mount(Context context, ClusterMount mount) {
  Result<OpenedMount> opened = open_cluster_mount(mount, options_.local_paths);
  if (!opened) co_return Error(opened.error());
  mount.options.erase(std::string(kReplicasOption));
  mount.replicas = opened->replicas;
  mount.store = opened->source->id();
  mount.prefix = opened->entry.source.prefix;
  ListRequest probe;
  probe.prefix = mount.prefix;
  Result<ListPage> page = co_await opened->source->list(context, std::move(probe));
  if (!page) co_return Error(page.error());
  RegistryChange change{.conditions = {{mount_key(mount.path), 0}},
                        .puts = {{mount_key(mount.path), encode_mount(mount)}}};
  Result<RegistryRevision> written = co_await registry_->commit(context, std::move(change));
  if (written) {
    co_await seen_here(context, *written);
    co_return mount;
  }
  if (written.error().code() == StatusCode::kUnavailable) {
    co_return error(written.error().with_context(
        fmt::format("whether {} is mounted now is not known, 'leat cluster' shows it; the registry "
                    "did not say",
                    mount.path)));
  }
  if (written.error().code() != StatusCode::kChanged) co_return Error(written.error());
  co_return error(StatusCode::kExists,
                  fmt::format("something is mounted at {} of the cluster already", mount.path));
}

Task<Result<>> ClusterWorkerImpl::remove_mount(Context context, std::string path) {
  if (!map_.view()->mounts.contains(path)) {
    co_return error(StatusCode::kNotFound,
                    fmt::format("nothing is mounted at {} of the cluster", path));
  }
  RegistryChange change{.removals = {mount_key(path)}};
  Result<RegistryRevision> written = co_await registry_->commit(context, std::move(change));
  if (!written) co_return Error(written.error());
  co_await seen_here(context, *written);
  co_return Result<>();
}

// Waits until this worker has seen the write, so that the client's next query finds it.
Task<> ClusterWorkerImpl::seen_here(Context context, RegistryRevision revision) {
  auto seen = co_await map_.newer(context.with_timeout(kSeenHereMax), revision - 1);
  static_cast<void>(seen);
}

Task<Result<>> ClusterWorkerImpl::drain(Context context, bool back, uint64_t bandwidth) {
  const ClusterViewPtr now = map_.view();
  const bool others = std::ranges::any_of(now->ring.members(), [&](const RingMember& one) {
    return one.worker != id_ && one.weight > 0 && now->worker(one.worker) != nullptr;
  });
  if (!back && !others) {
    co_return error(StatusCode::kBusy,
                    "no other worker is there to take this one's share; start one first");
  }
  if (back) co_await hand_off_.call_off();
  WorkerInfo self = member_->self();
  self.state = back ? WorkerState::kActive : WorkerState::kDraining;
  member_->publish(self);
  RegistryRevision seen = 0;
  while (true) {
    Result<ClusterViewPtr> view = co_await map_.newer(context, seen);
    if (!view)
      co_return error(
          view.error().with_context("the ring does not change; is there a "
                                    "leader ('leat cluster status')?"));
    seen = (*view)->revision;
    const auto& members = (*view)->ring.members();
    const bool member =
        std::ranges::any_of(members, [this](const RingMember& one) { return one.worker == id_; });
    if (member == back) break;
  }
  if (!back) co_await hand_off_.begin(bandwidth);
  co_return Result<>();
}

// Leave the cluster first, then stop the server, then the modules behind it.
Task<> ClusterWorkerImpl::stop() {
  stopping_.request_stop();
  co_await hand_off_.stop();
  if (job_runner_) co_await job_runner_->stop();
  if (job_book_) co_await job_book_->stop();
  if (member_) co_await member_->stop(Context::background().with_timeout(std::chrono::seconds(3)));
  if (server_) co_await server_->stop();
  if (files_door_) co_await files_door_->stop();
  activity_.close();
  co_await activity_.wait_idle();
  co_await news_.stop();
  co_await snapshots_->stop();
  co_await verify_runs_.stop();
  co_await copy_runs_.stop();
  co_await catalog_->stop();
  co_await replica_fetcher_->stop();
  co_await fetcher_->stop();
  co_await registry_->stop();
}

}  // namespace

Result<std::unique_ptr<ClusterWorker>> ClusterWorker::start(ClusterWorkerOptions options,
                                                            std::unique_ptr<Registry> registry,
                                                            std::unique_ptr<SecretFile> secrets,
                                                            HostCache& store, Executor& executor) {
  LEAT_CHECK_OK(check_worker_address(options.listen, options.advertise));
  const WorkerId id = store.worker();
  if (id.is_zero()) {
    return error(StatusCode::kUnavailable,
                 "no cache directory is open, and a worker's identity lives in one");
  }
  LEAT_TRY(Token token, issue(secrets->current()->signing(), TokenClaims::of_worker(id)));
  auto signer = std::make_shared<RequestSigner>(std::move(token));
  auto worker =
      std::make_unique<ClusterWorkerImpl>(std::move(options), std::move(registry),
                                          std::move(secrets), std::move(signer), store, executor);
  if (auto begun = worker->begin(); !begun) {
    executor.wait(worker->stop());
    return error(begun.error());
  }
  return worker;
}

}  // namespace leat
