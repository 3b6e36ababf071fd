// SPDX-License-Identifier: Apache-2.0
// ClusterMember: this process as a worker of a cluster: its record, its share in electing a leader,
// the leader's work on the ring, and the view of it all. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "cluster/election.h"
#include "cluster/registry_map.h"
#include "cluster/registry_session.h"
#include "cluster/ring_keeper.h"
#include "model/worker_info.h"

namespace leat {

struct ClusterMemberOptions {
  std::string cluster{};  // its name
  WorkerInfo self{};
  std::chrono::seconds ttl{10};  // of the lease
  RingKeeperOptions ring{};
  RegistryMapOptions::Listener on_view{};
};

class ClusterMember {
 public:
  // `registry` must outlive it, and stop() must have ended before it goes. Joins as soon as the
  // registry answers.
  static std::unique_ptr<ClusterMember> start(Registry& registry, ClusterMemberOptions options,
                                              Executor& executor);
  virtual ~ClusterMember() = default;

  virtual RegistryMap& map() = 0;
  virtual Election& election() = 0;
  virtual WorkerInfo self() const = 0;
  // What others see of us from now on; the id stays.
  virtual void publish(WorkerInfo self) = 0;
  // What is wrong between us and the registry; nothing while all is well.
  virtual std::optional<Status> trouble() const = 0;
  // Leaves: its record goes at once, its place in the ring when the leader has lost patience, or
  // at once where it drained before.
  virtual Task<> stop(Context context) = 0;
};

}  // namespace leat
