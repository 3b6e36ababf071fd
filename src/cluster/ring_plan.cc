// SPDX-License-Identifier: Apache-2.0
#include "cluster/ring_plan.h"

#include <algorithm>

namespace leat {
namespace {

// A capacity that follows the free space of a disk moves a little all the time, and places do not.
bool same_places(const std::vector<RingRecord::Member>& one,
                 const std::vector<RingRecord::Member>& other) {
  return make_ring(0, one).members() == make_ring(0, other).members();
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
  if (epoch != 0 && same_places(members, now.members)) return std::nullopt;
  if (given_ && at - *given_ < rest_ * now.members.size()) return std::nullopt;
  given_ = at;
  RingRecord next{.members = std::move(members)};
  if (epoch != 0) {
    next.previous = now.members;
    next.previous_epoch = epoch;
  }
  return next;
}

}  // namespace leat
