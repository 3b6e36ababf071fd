// SPDX-License-Identifier: Apache-2.0
// ClusterMember: makes this process a worker of a cluster: its record, its part in the election,
// the leader's work on the ring, and the resulting view. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "cluster/election.h"
#include "cluster/registry_session.h"
#include "cluster/registry_view_source.h"
#include "cluster/ring_updater.h"
#include "model/worker_info.h"

namespace leat {

struct ClusterMemberOptions {
  std::string cluster{};  // the cluster's name
  WorkerInfo self{};
  std::chrono::seconds ttl{10};  // of the lease
  RingUpdaterOptions ring{};
  RegistryViewSourceOptions::Listener on_view{};
};

class ClusterMember {
 public:
  // `registry` must outlive the member; stop() must have ended before destruction. Joins as soon as
  // the registry responds.
  static std::unique_ptr<ClusterMember> start(Registry& registry, ClusterMemberOptions options,
                                              Executor& executor);
  virtual ~ClusterMember() = default;

  virtual RegistryViewSource& views() = 0;
  virtual Election& election() = 0;
  virtual WorkerInfo self() const = 0;
  // Replaces the record that others see; the id stays.
  virtual void publish(WorkerInfo self) = 0;
  // Returns the problem between this worker and the registry; nothing while all is well.
  virtual std::optional<Status> trouble() const = 0;
  // Leaves: removes the record at once. The place in the ring ends after `absence_timeout`,
  // or at once if the worker has drained.
  virtual Task<> stop(Context context) = 0;
};

}  // namespace leat
