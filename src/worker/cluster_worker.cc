// SPDX-License-Identifier: Apache-2.0
#include "worker/cluster_worker_impl.h"

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
#include "worker/staging/staged_source.h"
#include "worker/worker_service.h"
#include "worker/writing/worker_write_service.h"

namespace leat {
namespace {

constexpr Clock::duration kSecretsCheckInterval = std::chrono::seconds(10);
// Retry interval of mounts that this host could not open.
constexpr Clock::duration kMountRetryInterval = std::chrono::seconds(30);

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

}  // namespace

ClusterWorkerImpl::ClusterWorkerImpl(ClusterWorkerOptions options, ClusterWorkerNetwork network,
                                     std::unique_ptr<Registry> registry,
                                     std::unique_ptr<SecretFile> secrets,
                                     std::shared_ptr<RequestSigner> signer,
                                     std::optional<StagingDisk> staging, HostCache& store,
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
      staging_(!staging
                   ? nullptr
                   : std::make_unique<StagingService>(
                         StagingServiceDeps{
                             .self = id_, .registry = *registry_, .views = views_, .peers = peers_},
                         *std::move(staging), options_.staging, executor)),
      writes_({.self = id_,
               .views = views_,
               .catalog = *catalog_,
               .staging = staging_.get(),
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
          .staging = staging_.get(),
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
  if (staging_ != nullptr) staging_->start();
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
                  .protocol = kPeerProtocol,
                  .failure_domain = options_.failure_domain};
  if (self.address.empty()) self.address = server_->address();
  return self;
}

PeerPtr ClusterWorkerImpl::make_peer(const WorkerInfo& info) {
  if (info.id == id_) return service_;
  return network_.connect(info, signer_);
}

SourcePtr ClusterWorkerImpl::wrap(const ClusterMount& mount, SourcePtr source) {
  if (staging_ != nullptr) {
    staging_->set_source(mount.path, source);
    source = make_staged_source(mount.path, std::move(source), *staging_);
  }
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

// Leave the cluster first, then stop the server, then the modules behind it.
Task<> ClusterWorkerImpl::stop() {
  stopping_.request_stop();
  co_await drain_job_.stop();
  if (staging_ != nullptr) co_await staging_->stop();
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
  std::optional<StagingDisk> staging;
  if (!options.staging_directory.empty()) {
    LEAT_TRY(staging, StagingDisk::open(options.staging_directory, options.staging_bytes_max));
  }
  auto worker = std::make_unique<ClusterWorkerImpl>(
      std::move(options), std::move(network), std::move(registry), std::move(secrets),
      std::move(signer), std::move(staging), store, executor);
  if (auto begun = worker->begin(); !begun) {
    executor.block_on(worker->stop());
    return error(begun.error());
  }
  return worker;
}

}  // namespace leat
