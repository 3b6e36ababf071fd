// SPDX-License-Identifier: Apache-2.0
// RingPlan: computes the next ring from present and previous workers. Pure bookkeeping of the
// leader; a new leader starts to count absences again.
#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "cluster/cluster_records.h"
#include "runtime/context.h"

namespace leat {

class RingPlan {
 public:
  // `absence_timeout`: how long a worker without a lease keeps its place, so that a restart moves
  // nothing. `interval_per_member`: minimum time between rings for each member. Each ring is sent
  // to every member, so without it the registry's load would grow with the square of the workers.
  explicit RingPlan(Clock::duration absence_timeout,
                    Clock::duration interval_per_member = Clock::duration(0))
      : absence_timeout_(absence_timeout), interval_per_member_(interval_per_member) {}

  // Returns the record that replaces `now`, which has `epoch` (0: none yet). Returns nothing if
  // `now` is right, or too young. `workers` are those with a valid lease. A draining worker
  // receives no new data, so it is no member.
  std::optional<RingRecord> next(const RingRecord& now, RegistryRevision epoch,
                                 const std::map<WorkerId, WorkerInfo>& workers,
                                 Clock::time_point at);

 private:
  Clock::duration absence_timeout_, interval_per_member_;
  std::optional<Clock::time_point> last_ring_at_;       // time of the last ring
  std::map<WorkerId, Clock::time_point> absent_since_;  // of members
};

}  // namespace leat
