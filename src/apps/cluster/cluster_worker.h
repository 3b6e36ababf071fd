// SPDX-License-Identifier: Apache-2.0
// ClusterWorker: this process as a worker: its catalog and fetcher over the host's page store, its
// membership, and the door by which all that is reached.
//
// Its fetcher is not the host's: that one waits for workers, this one only for stores and disks, so
// no two of them ever wait for each other. Thread-safe.
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
  std::string advertise{};  // empty: `listen`, with the port that was chosen
  std::string host_id{}, host_name{}, version{};
  std::string socket{};  // path, at which readers on this host are given files; empty: nowhere
  std::shared_ptr<const HttpTls> tls{};
  FetcherOptions fetch{};
  LocalPaths local_paths{};
  uint64_t hot_bytes_s = StripeHeatOptions().hot_bytes_s;
  std::string scratch_directory{};  // of large listings
  std::chrono::seconds ttl{10};
  RingKeeperOptions ring{};
};

class ClusterWorker {
 public:
  // Joins as soon as the registry answers. Every request is signed, so it may listen anywhere. The
  // last two outlive it, and stop() must have ended before it goes. Blocks.
  static Result<std::unique_ptr<ClusterWorker>> start(ClusterWorkerOptions options,
                                                      std::unique_ptr<Registry> registry,
                                                      std::unique_ptr<SecretFile> secrets,
                                                      HostCache& store, Executor& executor);
  virtual ~ClusterWorker() = default;

  virtual WorkerInfo self() const = 0;
  virtual ClusterViewPtr view() const = 0;
  // What is wrong between us and the registry.
  virtual std::optional<Status> trouble() const = 0;
  // Workers that have another secret.
  virtual std::vector<WorkerId> rejected() const = 0;
  // Why a mount is not served here.
  virtual std::optional<Status> mount_trouble(const std::string& path) const = 0;
  // This worker without a network, for the process's own client.
  virtual PeerPtr own_peer() = 0;
  virtual FileGiverPtr own_files() = 0;
  virtual std::shared_ptr<RequestSigner> signer() = 0;

  // The mount is all workers' from then on. kExists where the path is taken.
  virtual Task<Result<ClusterMount>> add_mount(Context context, ClusterMount mount) = 0;
  // kNotFound where there is none.
  virtual Task<Result<>> remove_mount(Context context, std::string path) = 0;
  // Gives its share away, and returns when the ring is without it: what it has goes to the others
  // from then on, at `bandwidth`. `back`: takes it again.
  virtual Task<Result<>> drain(Context context, bool back, uint64_t bandwidth) = 0;
  // How far that is; nothing where it does not leave.
  virtual std::optional<HandOffState> hand_off() const = 0;

  virtual ClusterJobBook& jobs() = 0;

  virtual Task<> stop() = 0;
};

}  // namespace leat
