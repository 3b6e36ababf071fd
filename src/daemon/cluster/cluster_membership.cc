// SPDX-License-Identifier: Apache-2.0
#include "daemon/cluster/cluster_membership.h"

#include <fmt/format.h>

#include <algorithm>

namespace leat {
namespace {

template <class Range, class Is>
uint64_t count_of(const Range& range, Is is) {
  return static_cast<uint64_t>(std::ranges::count_if(range, is));
}

}  // namespace

ClusterMembershipView membership_of(const ClusterStatusView& status) {
  const auto in_state = [&](std::string_view state) {
    return count_of(status.workers, [&](const auto& one) { return one.state == state; });
  };
  ClusterMembershipView view{.role = "worker",
                             .name = status.name,
                             .worker = status.self,
                             .leader = status.leader,
                             .epoch = status.epoch,
                             .workers = status.workers.size() - in_state("rejected"),
                             .draining = in_state("draining"),
                             .down = in_state("down"),
                             .unresponsive = in_state("unreachable"),
                             .refusing = in_state("refusing"),
                             .mounts = status.mounts.size(),
                             .trouble = status.trouble};
  const auto refusing =
      std::ranges::find(status.workers, std::string("refusing"), &ClusterWorkerView::state);
  if (view.trouble.empty() && refusing != status.workers.end()) {
    view.trouble = fmt::format("{} refuses the requests of this worker: {}", refusing->address,
                               refusing->trouble);
  }
  view.mounts_rejected =
      count_of(status.mounts, [](const auto& mount) { return !mount.trouble.empty(); });
  auto self = std::ranges::find(status.workers, status.self, &ClusterWorkerView::id);
  if (self != status.workers.end()) view.share = self->share;
  return view;
}

ClusterMembershipView membership_of(ClusterClient& client, std::string address) {
  const ClusterViewPtr known = client.views().view();
  ClusterMembershipView view{.role = "client",
                             .name = known->cluster,
                             .address = std::move(address),
                             .leader = known->leader,
                             .epoch = known->ring.epoch(),
                             .workers = known->workers.size(),
                             .unresponsive = client.unresponsive(),
                             .mounts = known->mounts.size()};
  view.draining = count_of(
      known->workers, [](const auto& one) { return one.second.state == WorkerState::kDraining; });
  view.down = count_of(known->ring.members(), [&](const RingMember& member) {
    return known->worker(member.worker) == nullptr;
  });
  view.workers += view.down;
  if (const auto trouble = client.trouble()) view.trouble = trouble->to_string();
  return view;
}

}  // namespace leat
