// SPDX-License-Identifier: Apache-2.0
// ClusterWorkerImpl: the parts of a ClusterWorker, in the order in which they need each other.
// Private to this module.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
#include "worker/cluster_worker.h"
#include "worker/copy_destinations.h"
#include "worker/invalidation_service.h"
#include "worker/rejected_workers.h"
#include "worker/snapshots/worker_snapshot_service.h"
#include "worker/staging/staged_source.h"
#include "worker/worker_service.h"
#include "worker/writing/worker_write_service.h"

namespace leat {

class ClusterWorkerImpl : public ClusterWorker {
 public:
  ClusterWorkerImpl(ClusterWorkerOptions options, ClusterWorkerNetwork network,
                    std::unique_ptr<Registry> registry, std::unique_ptr<SecretFile> secrets,
                    std::shared_ptr<RequestSigner> signer, std::optional<StagingDisk> staging,
                    HostCache& store, Executor& executor);

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
  std::optional<DrainProgress> drain_progress() const override {
    std::optional<DrainProgress> progress = drain_job_.progress();
    if (progress && staging_drains_) progress->ended = false;
    return progress;
  }
  ClusterJobStore& jobs() override { return *job_store_; }
  Task<std::vector<StagingState>> staged(Context context) override;
  Task<Result<>> flush(Context context, std::string path) override;
  Task<> stop() override;

 private:
  WorkerInfo make_self() const;
  PeerPtr make_peer(const WorkerInfo& info);
  SourcePtr wrap(const ClusterMount& mount, SourcePtr source);
  void on_view(const ClusterViewPtr& view);
  void on_path_changed(std::string path);
  bool view_is_current() const;
  Task<> wait_until_seen(Context context, RegistryRevision revision);
  Task<> drain_staging(Gate::Holder holder);
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
  const std::unique_ptr<StagingService> staging_;
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
  std::atomic<bool> staging_drains_ = false;
  std::atomic<bool> jobs_started_ = false;  // job_runner_ exists and accepts notifications
};

}  // namespace leat
