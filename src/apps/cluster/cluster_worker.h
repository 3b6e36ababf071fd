// SPDX-License-Identifier: Apache-2.0
// ClusterWorker: this process as a worker: its catalog and fetcher over the host's page store, its
// membership, and its peer server.
//
// Its fetcher is separate from the host's. The host's fetcher waits for workers; this one waits
// only for stores and disks. So no two of them ever wait for each other. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/cluster/local_paths.h"
#include "cache/host_cache.h"
#include "cluster/cluster_member.h"
#include "fetch/fetcher.h"
#include "http/endpoint.h"
#include "http/tls.h"
#include "jobs/cluster/cluster_job_book.h"
#include "jobs/cluster/hand_off.h"
#include "peer/handover/file_giver.h"
#include "peer/peer.h"
#include "peer/replicas/stripe_heat.h"
#include "peer/trust/cluster_secret.h"
#include "peer/trust/request_signature.h"
#include "runtime/executor.h"

namespace leat {

struct ClusterWorkerOptions {
  std::string cluster{};
  HttpEndpoint listen{};
  std::string advertise{};  // empty: `listen`, with the chosen port
  std::string host_id{}, host_name{}, version{};
  std::string socket{};  // path of the socket for fd passing to readers on this host; empty: none
  std::shared_ptr<const HttpTls> tls{};
  FetcherOptions fetch{};
  LocalPaths local_paths{};
  uint64_t hot_bytes_s = StripeHeatOptions().hot_bytes_s;
  std::string scratch_directory{};  // for large listings
  std::chrono::seconds ttl{10};
  RingKeeperOptions ring{};
};

class ClusterWorker {
 public:
  // Joins when the registry responds. Every request is signed, so it may listen on any address. The
  // last two arguments must outlive it. stop() must have ended before its destruction. Blocks.
  static Result<std::unique_ptr<ClusterWorker>> start(ClusterWorkerOptions options,
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
  virtual PeerPtr own_peer() = 0;
  virtual FileGiverPtr own_files() = 0;
  virtual std::shared_ptr<RequestSigner> signer() = 0;

  // Adds the mount for all workers. kExists if the path is in use.
  virtual Task<Result<ClusterMount>> add_mount(Context context, ClusterMount mount) = 0;
  // kNotFound if there is no such mount.
  virtual Task<Result<>> remove_mount(Context context, std::string path) = 0;
  // Hands its share over. Returns when the ring is without it; its cache moves to the others from
  // then on, at `bandwidth`. `back`: takes the share again.
  virtual Task<Result<>> drain(Context context, bool back, uint64_t bandwidth) = 0;
  // Returns the progress of the drain; nothing without one.
  virtual std::optional<HandOffState> hand_off() const = 0;

  virtual ClusterJobBook& jobs() = 0;

  virtual Task<> stop() = 0;
};

}  // namespace leat
