// SPDX-License-Identifier: Apache-2.0
#include "cluster/ring_plan.h"

#include <algorithm>

namespace leat {
namespace {

// A capacity that follows the free space of a disk moves a little all the time, and places do not.
bool same_places(const RingRecord& one, const RingRecord& other) {
  return make_ring(0, one.members, one.bound).members() ==
         make_ring(0, other.members, other.bound).members();
}

// That of a ring which was written before there was one in the record is the one it was made by.
uint32_t next_bound(const RingRecord& now, const std::vector<RingRecord::Member>& next) {
  const auto capacities = [](const std::vector<RingRecord::Member>& members) {
    std::vector<uint64_t> all;
    for (const RingRecord::Member& member : members) all.push_back(member.capacity_bytes);
    return all;
  };
  const uint32_t bound = now.bound != 0 ? now.bound : ring_bound(capacities(now.members), 0);
  return ring_bound(capacities(next), bound);
}

}  // namespace

std::optional<RingRecord> RingPlan::next(const RingRecord& now, RegistryRevision epoch,
                                         const std::map<WorkerId, WorkerInfo>& workers,
                                         Clock::time_point at) {
  std::map<WorkerId, Clock::time_point> absent;
  std::vector<RingRecord::Member> members;
  for (const auto& [id, worker] : workers) {
    if (worker.state == WorkerState::kActive) members.push_back({id, worker.capacity_bytes});
  }
  for (const RingRecord::Member& member : now.members) {
    if (workers.contains(member.worker)) continue;
    auto known = absent_since_.find(member.worker);
    const Clock::time_point since = known == absent_since_.end() ? at : known->second;
    if (at - since >= patience_) continue;
    absent[member.worker] = since;
    members.push_back(member);
  }
  absent_since_ = std::move(absent);
  std::ranges::sort(members, {}, &RingRecord::Member::worker);
  RingRecord next{.members = std::move(members)};
  next.bound = next_bound(now, next.members);
  if (epoch != 0 && same_places(next, now)) return std::nullopt;
  if (given_ && at - *given_ < rest_ * now.members.size()) return std::nullopt;
  given_ = at;
  if (epoch != 0) {
    next.previous = now.members;
    next.previous_epoch = epoch;
    next.previous_bound = now.bound;
  }
  return next;
}

}  // namespace leat
