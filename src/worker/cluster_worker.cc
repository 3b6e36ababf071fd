// SPDX-License-Identifier: Apache-2.0
#include "worker/cluster_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "auth/request_verifier.h"
#include "auth/secret_record_signer.h"
#include "catalog/catalog.h"
#include "cluster/cluster_records.h"
#include "cluster/lost_cache.h"
#include "cluster/signed_registry.h"
#include "cluster/view_watch.h"
#include "model/mount_entry.h"
#include "peer/replication/replica_source.h"
#include "peer/sources/cluster_source.h"
#include "peer/sources/previous_owner_source.h"
#include "telemetry/log.h"
#include "worker/cluster_job_environment.h"
#include "worker/cluster_mounts.h"
#include "worker/copy_destinations.h"
#include "worker/invalidation_service.h"
#include "worker/rejected_workers.h"
#include "worker/snapshots/worker_snapshot_service.h"
#include "worker/worker_service.h"
#include "worker/writing/worker_write_service.h"

namespace leat {
namespace {

constexpr Clock::duration kSecretsCheckInterval = std::chrono::seconds(10);
// Maximum wait of a change until this worker sees it.
constexpr Clock::duration kVisibilityTimeout = std::chrono::seconds(2);
// Retry interval of mounts that this host could not open.
constexpr Clock::duration kMountRetryInterval = std::chrono::seconds(30);

// The share of a worker's in-flight memory for bytes from other workers.
constexpr uint64_t kReplicaMemoryShare = 8;

FetcherOptions of_replicas(FetcherOptions options) {
  options.memory_bytes_max /= kReplicaMemoryShare;
  return options;
}
StoreWriting writing_of(const SourceCapabilities& store) {
  return {.writes = store.writes,
          .write_if_absent = store.write_if_absent,
          .write_if_version = store.write_if_version,
          .copies = store.copies,
          .renames = store.renames,
          .real_directories = store.real_directories,
          .attributes = store.attributes,
          .sets_attributes = store.sets_attributes};
}
FetcherOptions without_replicas(FetcherOptions options) {
  options.memory_bytes_max -= options.memory_bytes_max / kReplicaMemoryShare;
  return options;
}

class ClusterWorkerImpl : public ClusterWorker {
 public:
  ClusterWorkerImpl(ClusterWorkerOptions options, ClusterWorkerNetwork network,
                    std::unique_ptr<Registry> registry, std::unique_ptr<SecretFile> secrets,
                    std::shared_ptr<RequestSigner> signer, HostCache& store, Executor& executor);

  Result<> begin();

  WorkerInfo self() const override { return member_->self(); }
  ClusterViewPtr view() const override { return views_.view(); }
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
  PeerPtr service() override { return service_; }
  FdProviderPtr fd_provider() override { return service_; }
  std::shared_ptr<RequestSigner> signer() override { return signer_; }
  Task<Result<ClusterMount>> add_mount(Context context, ClusterMount mount) override;
  Task<Result<>> remove_mount(Context context, std::string path) override;
  Task<Result<>> drain(Context context, bool back, uint64_t bandwidth) override;
  std::optional<DrainProgress> drain_progress() const override { return drain_job_.progress(); }
  ClusterJobStore& jobs() override { return *job_store_; }
  Task<> stop() override;

 private:
  WorkerInfo make_self() const;
  PeerPtr make_peer(const WorkerInfo& info);
  SourcePtr wrap(const ClusterMount& mount, SourcePtr source);
  void on_view(const ClusterViewPtr& view);
  void on_path_changed(std::string path);
  bool view_is_current() const;
  Task<> wait_until_seen(Context context, RegistryRevision revision);
  Task<> follow_views(Gate::Holder holder);
  Task<> follow_secrets(Gate::Holder holder);
  void apply_secrets();

  const ClusterWorkerOptions options_;
  const ClusterWorkerNetwork network_;
  const WorkerId id_;
  HostCache& store_;
  Executor& executor_;
  const std::unique_ptr<SecretFile> secrets_;
  const std::shared_ptr<SecretRecordSigner> record_signer_;
  const std::unique_ptr<SignedRegistry> registry_;
  const std::shared_ptr<RequestSigner> signer_;
  std::stop_source stopping_;
  Gate gate_;
  ViewWatch views_;  // exists before the registry is connected
  PeerTable peers_{[this](const WorkerInfo& info) { return make_peer(info); }};
  RequestVerifier verifier_;
  SourceTable sources_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<Fetcher> fetcher_;
  SourceTable replica_sources_;  // for each store: the previous owners
  std::unique_ptr<Fetcher> replica_fetcher_;
  LocalJobCache job_cache_;
  VerifySessions verify_sessions_;
  CopyDestinations copy_destinations_{views_, options_.local_paths};
  const SourcePtr files_;  // the cluster's namespace, on all workers
  InvalidationService invalidations_;
  WorkerWriteService writes_;
  CopySessions copy_sessions_;
  DrainJob drain_job_;
  ClusterMounts mounts_;
  const std::unique_ptr<WorkerSnapshotService> snapshots_;
  std::shared_ptr<WorkerService> service_;
  std::unique_ptr<WorkerServer> server_;
  WorkerInfo self_;  // as registered
  std::unique_ptr<ClusterMember> member_;
  std::atomic<RegistryViewSource*> registry_views_ = nullptr;  // owned by member_
  std::unique_ptr<ClusterJobStore> job_store_;
  std::unique_ptr<ClusterJobRunner> job_runner_;
  std::atomic<bool> jobs_started_ = false;  // job_runner_ exists and accepts notifications
};

ClusterWorkerImpl::ClusterWorkerImpl(ClusterWorkerOptions options, ClusterWorkerNetwork network,
                                     std::unique_ptr<Registry> registry,
                                     std::unique_ptr<SecretFile> secrets,
                                     std::shared_ptr<RequestSigner> signer, HostCache& store,
                                     Executor& executor)
    : options_(std::move(options)),
      network_(std::move(network)),
      id_(store.worker()),
      store_(store),
      executor_(executor),
      secrets_(std::move(secrets)),
      record_signer_(std::make_shared<SecretRecordSigner>(*secrets_->current())),
      registry_(SignedRegistry::create(std::move(registry), record_signer_, options_.cluster)),
      signer_(std::move(signer)),
      verifier_(secrets_->current(), {.self = id_, .instance = Id128::random().to_hex()}),
      catalog_(Catalog::create(
          {.scratch_directory = options_.scratch_directory, .notify_on_create = true}, sources_,
          executor)),
      fetcher_(Fetcher::create(without_replicas(options_.fetch), &store_, sources_, executor)),
      replica_fetcher_(
          Fetcher::create(of_replicas(options_.fetch), &store_, replica_sources_, executor)),
      job_cache_(*fetcher_, store_, &store_, executor),
      verify_sessions_(job_cache_, executor),
      files_(make_cluster_source(
          {.cluster = options_.cluster, .name = "leat://" + options_.cluster}, views_, peers_)),
      invalidations_({.self = id_,
                      .views = views_,
                      .peers = peers_,
                      .catalog = *catalog_,
                      .files = *files_,
                      .changed = [this](std::string path) { on_path_changed(std::move(path)); }},
                     executor),
      writes_({.self = id_,
               .views = views_,
               .catalog = *catalog_,
               .on_change =
                   [this](const std::string& mount, const std::string& key) {
                     invalidations_.on_client_change(mount, key);
                   }},
              executor),
      copy_sessions_(
          *files_, [this](const CopySpec& spec) { return copy_destinations_.find(spec); },
          executor),
      drain_job_(store_, views_, peers_, executor),
      mounts_(*catalog_, &store_, options_.local_paths,
              [this](const ClusterMount& mount, SourcePtr source) {
                return wrap(mount, std::move(source));
              }),
      snapshots_(
          WorkerSnapshotService::start({.self = id_,
                                        .registry = *registry_,
                                        .views = views_,
                                        .peers = peers_,
                                        .directory = options_.scratch_directory + "/snapshots"},
                                       executor)),
      service_(std::make_shared<WorkerService>(WorkerServiceDeps{
          .self = id_,
          .views = views_,
          .catalog = *catalog_,
          .fetcher = *fetcher_,
          .replicas = replica_fetcher_.get(),
          .store = &store_,
          .job_cache = &job_cache_,
          .verify_sessions = &verify_sessions_,
          .copy_sessions = &copy_sessions_,
          .snapshots = snapshots_.get(),
          .writes = &writes_,
          .policy_of = [this](const std::string& path) { return mounts_.policy_of(path); },
          .on_version_gone =
              [this](const std::string& mount, const FileRefPtr& file) {
                invalidations_.on_version_gone(mount, file);
              },
          .heat = {.hot_stripe_bandwidth = options_.hot_stripe_bandwidth,
                   .replicas_max = kReplicasMax}})) {
  catalog_->set_change_listener(
      [this](const CatalogChange& change) { invalidations_.on_local_change(change); });
}

Result<> ClusterWorkerImpl::begin() {
  LEAT_TRY(server_, network_.start_server({.service = *service_,
                                           .views = views_,
                                           .invalidations = invalidations_.log(),
                                           .verifier = verifier_,
                                           .snapshots = *snapshots_,
                                           .view_is_current = [this] { return view_is_current(); },
                                           .on_invalidations =
                                               [this](Invalidations more) {
                                                 invalidations_.on_remote_change(std::move(more));
                                               }},
                                          executor_));
  ClusterMemberOptions member{
      .cluster = options_.cluster, .ttl = options_.ttl, .ring = options_.ring};
  member.self = self_ = make_self();
  member.on_view = [this](const ClusterViewPtr& view) { on_view(view); };
  member_ = ClusterMember::start(*registry_, std::move(member), executor_);
  registry_views_ = &member_->views();
  job_store_ = ClusterJobStore::start(*registry_, executor_);
  server_->set_job_store(*job_store_);
  ClusterJobRunnerDeps jobs{.registry = *registry_,
                            .election = member_->election(),
                            .store = *job_store_,
                            .worker = id_.to_hex(),
                            .make_environment = [this] {
                              return make_cluster_job_environment(
                                  {.scratch_directory = options_.scratch_directory}, views_, peers_,
                                  executor_);
                            }};
  job_runner_ = ClusterJobRunner::start(std::move(jobs), executor_);
  jobs_started_ = true;
  executor_.spawn(follow_views(std::move(*gate_.enter())));
  executor_.spawn(follow_secrets(std::move(*gate_.enter())));
  log::info("worker {} of cluster '{}' listens at {}", id_.to_hex(), options_.cluster,
            server_->address());
  return {};
}

WorkerInfo ClusterWorkerImpl::make_self() const {
  WorkerInfo self{.id = id_,
                  .address = options_.advertise,
                  .host_id = options_.host_id,
                  .host_name = options_.host_name,
                  .fd_socket = server_->fd_socket(),
                  .capacity_bytes = store_.stats().capacity_bytes,
                  .version = options_.version,
                  .protocol = kPeerProtocol};
  if (self.address.empty()) self.address = server_->address();
  return self;
}

PeerPtr ClusterWorkerImpl::make_peer(const WorkerInfo& info) {
  if (info.id == id_) return service_;
  return network_.connect(info, signer_);
}

SourcePtr ClusterWorkerImpl::wrap(const ClusterMount& mount, SourcePtr source) {
  return make_previous_owner_source({.self = id_, .mount = mount.path}, std::move(source), views_,
                                    peers_);
}

void ClusterWorkerImpl::on_view(const ClusterViewPtr& view) {
  const ClusterViewPtr before = views_.view();
  if (before->revision == 0) report_lost_cache(*view, self_);
  peers_.update(*view);
  for (const auto& [path, mount] : view->mounts) {
    if (replica_sources_.find(mount.store) != nullptr) continue;
    replica_sources_.add(make_replica_source(id_, mount.store, views_, peers_));
  }
  views_.set(view);
  // Mounts from before this worker's start are not new.
  if (before->revision == 0 || !jobs_started_) return;
  for (const auto& [path, mount] : view->mounts) {
    if (!before->mounts.contains(path)) job_runner_->note_change(path, true);
  }
}

void ClusterWorkerImpl::on_path_changed(std::string path) {
  if (jobs_started_) job_runner_->note_change(std::move(path), false);
}

bool ClusterWorkerImpl::view_is_current() const {
  const RegistryViewSource* views = registry_views_;
  return views != nullptr && views->view()->revision != 0 && !views->trouble();
}

Task<> ClusterWorkerImpl::follow_views(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  RegistryRevision seen = 0;
  while (!context.cancelled()) {
    Result<ClusterViewPtr> newer =
        co_await views_.newer(context.with_timeout(kMountRetryInterval), seen);
    if (context.cancelled()) break;
    const ClusterViewPtr view = newer ? *newer : views_.view();
    if (view->revision == 0) continue;
    seen = view->revision;
    co_await mounts_.follow(view);
  }
}

// Secrets are replaced during operation: see the file's format. The worker signs its registry
// records again with the first secret, so that older ones can be removed from the file.
Task<> ClusterWorkerImpl::follow_secrets(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  bool sign_again = secrets_->current()->secrets.size() > 1;
  while (true) {
    Result<> slept = co_await sleep_for(context, kSecretsCheckInterval);
    if (!slept) co_return;
    Result<bool> changed =
        co_await executor_.blocking([file = secrets_.get()] { return file->reload(); });
    if (!changed) log::warning("the cluster's secret: {}", changed.error().to_string());
    if (changed && *changed) {
      apply_secrets();
      sign_again = true;
    }
    if (!sign_again) continue;
    Result<size_t> done =
        co_await registry_->sign_again(context.with_timeout(kSecretsCheckInterval));
    sign_again = !done;
    if (done && *done > 0) log::info("{} of the registry's records were signed again", *done);
  }
}

void ClusterWorkerImpl::apply_secrets() {
  const SecretSetPtr secrets = secrets_->current();
  verifier_.set_secrets(secrets);
  record_signer_->set_secrets(*secrets);
  registry_->keys_changed();
  Result<Token> token = issue(secrets->signing(), TokenClaims::of_worker(id_));
  if (token) signer_->renew(*std::move(token));
  log::info("the cluster's secret was read again: {} are valid", secrets->secrets.size());
}

// --- requests ------------------------------------------------------------------------------------

Task<Result<ClusterMount>> ClusterWorkerImpl::add_mount(Context context, ClusterMount mount) {
  Result<OpenedMount> opened = open_cluster_mount(mount, options_.local_paths);
  if (!opened) co_return Error(opened.error());
  mount.options.erase(std::string(kReplicasOption));
  mount.replicas = opened->replicas;
  mount.store = opened->source->id();
  mount.prefix = opened->entry.source.prefix;
  mount.writing = writing_of(opened->source->capabilities());
  ListRequest probe;
  probe.prefix = mount.prefix;
  Result<ListPage> page = co_await opened->source->list(context, std::move(probe));
  if (!page) co_return Error(page.error());
  RegistryChange change{.conditions = {{mount_key(mount.path), 0}},
                        .puts = {{mount_key(mount.path), encode_mount(mount)}}};
  Result<RegistryRevision> written = co_await registry_->commit(context, std::move(change));
  if (written) {
    co_await wait_until_seen(context, *written);
    co_return mount;
  }
  if (written.error().code() == StatusCode::kUnavailable) {
    co_return error(written.error().with_context(
        fmt::format("whether {} is mounted now is not known, 'leat cluster' shows it; the registry "
                    "did not respond",
                    mount.path)));
  }
  if (written.error().code() != StatusCode::kVersionChanged) co_return Error(written.error());
  co_return error(StatusCode::kExists,
                  fmt::format("something is mounted at {} of the cluster already", mount.path));
}

Task<Result<>> ClusterWorkerImpl::remove_mount(Context context, std::string path) {
  if (!views_.view()->mounts.contains(path)) {
    co_return error(StatusCode::kNotFound,
                    fmt::format("nothing is mounted at {} of the cluster", path));
  }
  RegistryChange change{.removals = {mount_key(path)}};
  Result<RegistryRevision> written = co_await registry_->commit(context, std::move(change));
  if (!written) co_return Error(written.error());
  co_await wait_until_seen(context, *written);
  co_return Result<>();
}

// Waits until this worker has seen the write, so that the client's next query finds it.
Task<> ClusterWorkerImpl::wait_until_seen(Context context, RegistryRevision revision) {
  auto seen = co_await views_.newer(context.with_timeout(kVisibilityTimeout), revision - 1);
  static_cast<void>(seen);
}

Task<Result<>> ClusterWorkerImpl::drain(Context context, bool back, uint64_t bandwidth) {
  const ClusterViewPtr now = views_.view();
  const bool others = std::ranges::any_of(now->ring.members(), [&](const RingMember& one) {
    return one.worker != id_ && one.weight > 0 && now->worker(one.worker) != nullptr;
  });
  if (!back && !others) {
    co_return error(StatusCode::kBusy,
                    "there is no other worker for this one's share; start one first");
  }
  if (back) co_await drain_job_.cancel();
  WorkerInfo self = member_->self();
  self.state = back ? WorkerState::kActive : WorkerState::kDraining;
  member_->publish(self);
  RegistryRevision seen = 0;
  while (true) {
    Result<ClusterViewPtr> view = co_await views_.newer(context, seen);
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
  if (!back) co_await drain_job_.begin(bandwidth);
  co_return Result<>();
}

// Leave the cluster first, then stop the server, then the modules behind it.
Task<> ClusterWorkerImpl::stop() {
  stopping_.request_stop();
  co_await drain_job_.stop();
  if (job_runner_) co_await job_runner_->stop();
  if (job_store_) co_await job_store_->stop();
  if (member_) co_await member_->stop(Context::background().with_timeout(std::chrono::seconds(3)));
  if (server_) co_await server_->stop();
  gate_.close();
  co_await gate_.wait_idle();
  co_await writes_.stop();
  co_await invalidations_.stop();
  co_await snapshots_->stop();
  co_await verify_sessions_.stop();
  co_await copy_sessions_.stop();
  co_await catalog_->stop();
  co_await replica_fetcher_->stop();
  co_await fetcher_->stop();
  co_await registry_->stop();
}

}  // namespace

Result<std::unique_ptr<ClusterWorker>> ClusterWorker::start(ClusterWorkerOptions options,
                                                            ClusterWorkerNetwork network,
                                                            std::unique_ptr<Registry> registry,
                                                            std::unique_ptr<SecretFile> secrets,
                                                            HostCache& store, Executor& executor) {
  const WorkerId id = store.worker();
  if (id.is_zero()) {
    return error(StatusCode::kUnavailable,
                 "no cache directory is open, and a worker's identity lives in one");
  }
  LEAT_TRY(Token token, issue(secrets->current()->signing(), TokenClaims::of_worker(id)));
  auto signer = std::make_shared<RequestSigner>(std::move(token));
  auto worker = std::make_unique<ClusterWorkerImpl>(std::move(options), std::move(network),
                                                    std::move(registry), std::move(secrets),
                                                    std::move(signer), store, executor);
  if (auto begun = worker->begin(); !begun) {
    executor.block_on(worker->stop());
    return error(begun.error());
  }
  return worker;
}

}  // namespace leat
