// SPDX-License-Identifier: Apache-2.0
#include "cluster/ring_plan.h"

#include <algorithm>

namespace leat {
namespace {

// Returns weights in bytes, whatever the unit of the record.
std::vector<std::pair<WorkerId, uint64_t>> weights_of(const RingRecord& record) {
  std::vector<std::pair<WorkerId, uint64_t>> weights;
  const Ring ring = make_ring(0, record.members, record.bound, record.unit);
  for (const RingMember& member : ring.members()) {
    weights.emplace_back(member.worker, member.weight * record.unit);
  }
  return weights;
}

std::vector<uint64_t> capacities_of(const std::vector<RingRecord::Member>& members) {
  std::vector<uint64_t> all;
  for (const RingRecord::Member& member : members) all.push_back(member.capacity_bytes);
  return all;
}

// A ring from before records had a bound used the computed one.
uint32_t next_bound(const RingRecord& now, const RingRecord& next) {
  const uint64_t bound =
      now.bound != 0 ? now.bound : ring_bound(capacities_of(now.members), 0, now.unit);
  const uint64_t in_unit = std::min<uint64_t>(bound * now.unit / next.unit, kRingWeightMax);
  return ring_bound(capacities_of(next.members), static_cast<uint32_t>(in_unit), next.unit);
}

// Every worker builds the ring from the record, so all of them must know the unit.
uint64_t unit_for(const std::map<WorkerId, WorkerInfo>& workers) {
  const bool fine = std::ranges::all_of(
      workers, [](const auto& one) { return one.second.supports_fine_rings(); });
  return fine ? kRingUnit : kCoarseRingUnit;
}

}  // namespace

std::optional<RingRecord> RingPlan::next(const RingRecord& now, RegistryRevision epoch,
                                         const std::map<WorkerId, WorkerInfo>& workers,
                                         Clock::time_point at) {
  std::map<WorkerId, Clock::time_point> absent;
  std::vector<RingRecord::Member> members;
  for (const auto& [id, worker] : workers) {
    if (worker.state == WorkerState::kActive) {
      members.push_back({id, worker.capacity_bytes, worker.address});
    }
  }
  for (const RingRecord::Member& member : now.members) {
    if (workers.contains(member.worker)) continue;
    auto known = absent_since_.find(member.worker);
    const Clock::time_point since = known == absent_since_.end() ? at : known->second;
    if (at - since >= absence_timeout_) continue;
    absent[member.worker] = since;
    members.push_back(member);
  }
  absent_since_ = std::move(absent);
  std::ranges::sort(members, {}, &RingRecord::Member::worker);
  RingRecord next{.members = std::move(members), .unit = unit_for(workers)};
  next.bound = next_bound(now, next);
  if (epoch != 0 && weights_of(next) == weights_of(now)) return std::nullopt;
  if (last_ring_at_ && at - *last_ring_at_ < interval_per_member_ * now.members.size())
    return std::nullopt;
  last_ring_at_ = at;
  if (epoch != 0) {
    next.previous = now.members;
    next.previous_epoch = epoch;
    next.previous_unit = now.unit;
    next.previous_bound = now.bound;
  }
  return next;
}

}  // namespace leat
