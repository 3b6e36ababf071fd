// SPDX-License-Identifier: Apache-2.0
// HostCluster: the clusters of a daemon. It runs the worker, if one is configured, and the clients
// of mounted clusters (leat://…). Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "apps/cluster/cluster_client.h"
#include "apps/cluster/cluster_worker.h"
#include "catalog/catalog.h"
#include "catalog/change_teller.h"
#include "config/config.h"
#include "doors/admin/cluster_host.h"
#include "doors/admin/codec.h"
#include "model/store_url.h"
#include "peer/trust/peer_checks.h"
#include "runtime/activity.h"

namespace leat {

struct HostClusterOptions {
  const Config& config;
  uint64_t memory_bytes_max = 0;  // for a worker's reads
  std::string scratch_directory{};
  std::string runtime_directory{};
  std::string version{};
};

class HostCluster : public ClusterHost {
 public:
  // `store` and `executor` must outlive it. Blocks.
  static Result<std::unique_ptr<HostCluster>> start(const HostClusterOptions& options,
                                                    HostCache& store, Executor& executor);
  // Must be called before destruction, after the end of all users of its sources.
  Task<> stop();

  // Sets the catalog that receives invalidations from now on; null: none.
  void attach(Catalog* catalog);

  // Opens leat://HOST:PORT[,HOST:PORT]/PATH, with the options `token`, `ca`, `certificate`, `key`.
  // With `must_answer`, returns kUnavailable if no worker responds within `context`. Otherwise
  // returns a source that works as soon as one responds.
  Task<Result<SourcePtr>> open_source(Context context, StoreUrl url, bool must_answer);

  // Returns the cluster of its worker and the clusters with mounts.
  std::vector<ClusterMembershipView> memberships() const;
  // Returns the client that owns the source; null if it belongs to no cluster.
  std::shared_ptr<ClusterClient> client_with(const SourcePtr& source) const;

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

  explicit HostCluster(Executor& executor) : executor_(executor) {}

  Task<> end_left(Activity::Token token);
  Task<> watch_workers(Activity::Token token);
  // Includes the results of the last checks of other workers.
  Result<ClusterStatusView> known_status() const;

  Result<ClientPtr> client_of(const StoreUrl& url);
  Result<ClientPtr> client_at(const std::string& path) const;
  std::string token_file_of(const StoreUrl& url) const;
  Result<std::shared_ptr<RequestSigner>> signer_of(const StoreUrl& url) const;
  // Removes an unused client. Returns whether the caller must stop it.
  bool forget(const ClientPtr& client);
  Result<SourcePtr> source_of(const ClientPtr& client);
  bool is_own(const WorkerInfo& info) const;
  static Task<> pass_on(HostCluster* self, std::string client, PeerChanges changes);
  Result<> need_worker() const;
  Result<ClientPtr> only_client() const;
  Task<Result<Json>> ask_jobs(Context context, std::string method, std::string below,
                              std::string body) const;
  Task<Result<ClusterJobView>> ask_job(Context context, std::string method, std::string below,
                                       std::string body) const;

  Executor& executor_;
  Activity activity_;
  std::stop_source stopping_;
  std::unique_ptr<ClusterWorker> worker_;
  std::shared_ptr<const HttpTls> worker_tls_;
  std::unique_ptr<PeerChecks> checks_;  // exists if worker_ does
  mutable std::mutex mutex_;            // taken before a client's
  bool stopped_ = false;
  std::map<std::string, ClientPtr> clients_;  // key: address and options
  Catalog* catalog_ = nullptr;
  std::shared_ptr<ChangeTeller> teller_;  // exists if catalog_ does
};

}  // namespace leat
