// SPDX-License-Identifier: Apache-2.0
// RingPlan: what the ring is to be next, by who is there and who was. Pure bookkeeping of the
// leader; a new leader begins to count absences anew.
#pragma once

#include <chrono>
#include <map>
#include <optional>

#include "cluster/cluster_records.h"
#include "runtime/context.h"

namespace leat {

class RingPlan {
 public:
  // `patience`: how long a worker keeps its place without a lease, so that a restart moves nothing.
  // `rest`: after a ring none for so long for each of its members, since each of them is told of
  // all: what rings cost the registry does not grow with the square of the workers then.
  explicit RingPlan(Clock::duration patience, Clock::duration rest = Clock::duration(0))
      : patience_(patience), rest_(rest) {}

  // The record to write in place of `now`, which has `epoch` (0: there is none yet); nothing where
  // that is as it should be, or is too young. `workers`: those whose lease stands. Who drains holds
  // nothing new, so it is no member.
  std::optional<RingRecord> next(const RingRecord& now, RegistryRevision epoch,
                                 const std::map<WorkerId, WorkerInfo>& workers,
                                 Clock::time_point at);

 private:
  Clock::duration patience_, rest_;
  std::optional<Clock::time_point> given_;              // when the last ring was
  std::map<WorkerId, Clock::time_point> absent_since_;  // of members
};

}  // namespace leat
