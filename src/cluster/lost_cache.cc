// SPDX-License-Identifier: Apache-2.0
#include "cluster/lost_cache.h"

#include <algorithm>

#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter lost_total("leat_cluster_caches_lost_total",
                   "Starts of this worker with a different cache directory than the cluster has on "
                   "record for its address");

}  // namespace

std::optional<WorkerId> previous_worker(const ClusterView& view, const WorkerInfo& self) {
  const auto& members = view.ring.members();
  if (std::ranges::find(members, self.id, &RingMember::worker) != members.end()) return {};
  // A valid lease has the present address of a worker, the ring the last known one.
  for (const auto& [id, worker] : view.workers) {
    if (id != self.id && worker.address == self.address) return id;
  }
  for (const auto& [id, address] : view.ring_addresses) {
    if (address == self.address && view.worker(id) == nullptr) return id;
  }
  return {};
}

void report_lost_cache(const ClusterView& view, const WorkerInfo& self) {
  const std::optional<WorkerId> previous = previous_worker(view, self);
  if (!previous) return;
  lost_total.add();
  log::warning(
      "worker {} at {} begins with an empty cache: the cluster knew worker {} there, whose cache "
      "directory was emptied or replaced; what it held is fetched again",
      self.id.to_hex(), self.address, previous->to_hex());
}

}  // namespace leat
