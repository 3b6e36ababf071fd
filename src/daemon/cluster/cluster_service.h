// SPDX-License-Identifier: Apache-2.0
// ClusterService: the clusters of a daemon. It runs the worker, if one is configured, and the
// clients of mounted clusters (leat://…). Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "catalog/catalog.h"
#include "catalog/invalidation_applier.h"
#include "config/config.h"
#include "daemon/cluster/cluster_client.h"
#include "daemon/cluster/cluster_epoch_loads.h"
#include "frontends/admin/cluster_api.h"
#include "frontends/admin/codec.h"
#include "model/store_url.h"
#include "peer/client/peer_checks.h"
#include "runtime/gate.h"
#include "worker/cluster_worker.h"

namespace leat {

struct ClusterServiceOptions {
  const Config& config;
  uint64_t memory_bytes_max = 0;  // for a worker's reads
  std::string scratch_directory{};
  uint64_t staging_bytes_max = 0;  // of staged writes of the cluster
  std::string runtime_directory{};
  std::string version{};
};

class ClusterService : public ClusterApi {
 public:
  // `store` and `executor` must outlive it. Blocks.
  static Result<std::unique_ptr<ClusterService>> start(const ClusterServiceOptions& options,
                                                       HostCache& store, Executor& executor);
  // Must be called before destruction, after the end of all users of its sources.
  Task<> stop();

  // Sets the catalog that receives invalidations from now on; null: none.
  void set_catalog(Catalog* catalog);

  // Opens leat://HOST:PORT[,HOST:PORT]/PATH, with the options `token`, `ca`, `certificate`, `key`.
  // With `must_respond`, returns kUnavailable if no worker responds within `context`. Otherwise
  // returns a source that works as soon as one responds.
  Task<Result<SourcePtr>> open_source(Context context, StoreUrl url, bool must_respond);

  // Returns the cluster of its worker and the clusters with mounts.
  std::vector<ClusterMembershipView> memberships() const;
  // Returns the cluster that has the path of this host, and the path there; nothing if none has.
  std::optional<ClusterEpochLoads::Tree> tree_at(const std::string& path) const;
  // Returns the client that owns the source; null if it belongs to no cluster.
  std::shared_ptr<ClusterClient> client_of_source(const SourcePtr& source) const;

  Task<Result<ClusterStatusView>> cluster_status() override;
  Task<Result<ClusterMountView>> add_cluster_mount(Context context,
                                                   ClusterMountRequest request) override;
  Task<Result<>> remove_cluster_mount(Context context, std::string path) override;
  Task<Result<>> drain_worker(Context context, ClusterDrainRequest request) override;
  Task<Result<std::vector<SnapshotView>>> cluster_snapshots(Context context,
                                                            std::string path) override;
  Task<Result<>> remove_cluster_snapshot(Context context, std::string path,
                                         std::string name) override;
  Task<Result<ClusterJobView>> start_cluster_job(Context context,
                                                 ClusterJobRequest request) override;
  Task<Result<std::vector<ClusterJobView>>> cluster_jobs(Context context) const override;
  Task<Result<ClusterJobView>> cluster_job(Context context, uint64_t id) const override;
  Task<Result<ClusterJobView>> cancel_cluster_job(Context context, uint64_t id) override;

 private:
  using ClientPtr = std::shared_ptr<ClusterClient>;

  explicit ClusterService(Executor& executor) : executor_(executor) {}

  Task<> stop_unused(Gate::Holder holder);
  Task<> watch_workers(Gate::Holder holder);
  // Includes the results of the last checks of other workers.
  Result<ClusterStatusView> known_status() const;

  Result<ClientPtr> client_of(const StoreUrl& url);
  MountPtr mount_at(const std::string& path) const;
  Result<ClientPtr> client_at(const std::string& path) const;
  std::string token_file_of(const StoreUrl& url) const;
  Result<std::shared_ptr<RequestSigner>> signer_of(const StoreUrl& url) const;
  // Removes an unused client. Returns whether the caller must stop it.
  bool release(const ClientPtr& client);
  Result<SourcePtr> source_of(const ClientPtr& client);
  bool is_own(const WorkerInfo& info) const;
  static Task<> on_invalidations(ClusterService* self, std::string client, Invalidations changes);
  Result<> need_worker() const;
  Result<ClientPtr> only_client() const;
  Task<Result<Json>> request_jobs(Context context, std::string method, std::string below,
                                  std::string body) const;
  Task<Result<ClusterJobView>> request_job(Context context, std::string method, std::string below,
                                           std::string body) const;

  Executor& executor_;
  Gate gate_;
  std::stop_source stopping_;
  std::unique_ptr<ClusterWorker> worker_;
  std::shared_ptr<const HttpTls> worker_tls_;
  std::unique_ptr<PeerChecks> checks_;  // exists if worker_ does
  mutable std::mutex mutex_;            // taken before a client's
  bool stopped_ = false;
  std::map<std::string, ClientPtr> clients_;  // key: address and options
  Catalog* catalog_ = nullptr;
  std::shared_ptr<InvalidationApplier> applier_;  // exists if catalog_ does
};

}  // namespace leat
