// SPDX-License-Identifier: Apache-2.0
#include "peer/peer_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace leat {

void PeerTable::update(const ClusterView& view) {
  std::set<WorkerId> in_ring;
  for (const RingMember& member : view.ring.members()) in_ring.insert(member.worker);
  if (view.previous) {
    for (const RingMember& member : view.previous->members()) in_ring.insert(member.worker);
  }
  std::lock_guard lock(mutex_);
  for (const auto& [id, info] : view.workers) {
    Entry& entry = peers_[id];
    const bool same = entry.peer != nullptr && entry.info.address == info.address &&
                      entry.info.fd_socket == info.fd_socket &&
                      entry.info.host_id == info.host_id && entry.info.protocol == info.protocol;
    entry.info = info;
    if (!same) entry.peer = make_(info);
  }
  std::erase_if(peers_, [&](const auto& one) {
    return !view.workers.contains(one.first) && !in_ring.contains(one.first);
  });
}

std::vector<WorkerId> PeerTable::ids() const {
  std::vector<WorkerId> all;
  std::lock_guard lock(mutex_);
  all.reserve(peers_.size());
  for (const auto& [id, known] : peers_) all.push_back(id);
  return all;
}

PeerPtr PeerTable::find(const WorkerId& id) const {
  std::lock_guard lock(mutex_);
  auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second.peer;
}

std::string PeerTable::name_of(const WorkerId& id) const {
  std::lock_guard lock(mutex_);
  auto found = peers_.find(id);
  if (found == peers_.end()) return fmt::format("worker {}", id.to_hex().substr(0, 8));
  const WorkerInfo& info = found->second.info;
  if (info.host_name.empty()) return info.address;
  return fmt::format("{} ({})", info.host_name, info.address);
}

}  // namespace leat
