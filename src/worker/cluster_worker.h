// SPDX-License-Identifier: Apache-2.0
// ClusterWorker: this process as a worker: its catalog and fetcher over the host's page store, its
// membership, and the server that the composition root gives it.
//
// Its fetcher is separate from the host's. The host's fetcher waits for workers; this one waits
// only for stores and disks. So no two of them ever wait for each other. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "auth/cluster_secret.h"
#include "auth/request_signature.h"
#include "cache/host_cache.h"
#include "cluster/cluster_member.h"
#include "fetch/fetcher.h"
#include "jobs/cluster/cluster_job_store.h"
#include "jobs/cluster/drain_job.h"
#include "peer/fd_passing/fd_provider.h"
#include "peer/peer.h"
#include "peer/replication/hot_stripe_tracker.h"
#include "runtime/executor.h"
#include "worker/local_paths.h"
#include "worker/staging/staging_service.h"
#include "worker/worker_server.h"

namespace leat {

struct ClusterWorkerOptions {
  std::string cluster{};
  std::string advertise{};  // address for others; empty: the server's
  std::string host_id{}, host_name{}, version{};
  FetcherOptions fetch{};
  LocalPaths local_paths{};
  uint64_t hot_stripe_bandwidth = HotStripeTrackerOptions().hot_stripe_bandwidth;
  std::string scratch_directory{};  // for large listings
  // For staged writes: their directory on a disk, and their bytes on this worker. Empty: none.
  std::string staging_directory{};
  uint64_t staging_bytes_max = 0;
  StagingPrimaryOptions staging{};
  std::string failure_domain{};  // as in WorkerInfo
  std::chrono::seconds ttl{10};
  RingUpdaterOptions ring{};
};

// Returns a client of another worker, which signs its requests; null if it cannot be made.
using ConnectPeer =
    std::function<PeerPtr(const WorkerInfo& worker, std::shared_ptr<RequestSigner> signer)>;

// Connects a worker to others.
struct ClusterWorkerNetwork {
  StartWorkerServer start_server;
  ConnectPeer connect;
};

class ClusterWorker {
 public:
  // Joins when the registry responds. The last two arguments must outlive it. stop() must have
  // ended before its destruction. Blocks.
  static Result<std::unique_ptr<ClusterWorker>> start(ClusterWorkerOptions options,
                                                      ClusterWorkerNetwork network,
                                                      std::unique_ptr<Registry> registry,
                                                      std::unique_ptr<SecretFile> secrets,
                                                      HostCache& store, Executor& executor);
  virtual ~ClusterWorker() = default;

  virtual WorkerInfo self() const = 0;
  virtual ClusterViewPtr view() const = 0;
  // Returns the error between this worker and the registry, if any.
  virtual std::optional<Status> trouble() const = 0;
  // Returns workers with another secret.
  virtual std::vector<WorkerId> rejected() const = 0;
  // Returns why a mount is not served here.
  virtual std::optional<Status> mount_trouble(const std::string& path) const = 0;
  // Returns this worker without a network, for the client in this process.
  virtual PeerPtr service() = 0;
  virtual FdProviderPtr fd_provider() = 0;
  virtual std::shared_ptr<RequestSigner> signer() = 0;

  // Adds the mount for all workers. kExists if the path is in use.
  virtual Task<Result<ClusterMount>> add_mount(Context context, ClusterMount mount) = 0;
  // kNotFound if there is no such mount.
  virtual Task<Result<>> remove_mount(Context context, std::string path) = 0;
  // Moves its share to the others. Returns when the ring is without it; its cache moves to the
  // others from then on, at `bandwidth`. `back`: takes the share again.
  virtual Task<Result<>> drain(Context context, bool back, uint64_t bandwidth) = 0;
  // Returns the progress of the drain; nothing without one.
  virtual std::optional<DrainProgress> drain_progress() const = 0;

  virtual ClusterJobStore& jobs() = 0;
  // Returns the staged changes of all mounts that have some.
  virtual Task<std::vector<StagingState>> staged(Context context) = 0;
  // Returns when the store has what is staged at and below that path by now.
  virtual Task<Result<>> flush(Context context, std::string path) = 0;

  virtual Task<> stop() = 0;
};

}  // namespace leat
