// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_view.h"

#include <algorithm>

#include "model/mount_entry.h"

namespace leat {

bool StagingRecord::has_member(const WorkerId& id) const {
  return std::ranges::find(members, id) != members.end();
}

const ClusterMount* ClusterView::mount_of(std::string_view path) const {
  const ClusterMount* longest = nullptr;
  for (const auto& [at, mount] : mounts) {
    if (!is_at_or_below(path, at)) continue;
    if (longest == nullptr || at.size() > longest->path.size()) longest = &mount;
  }
  return longest;
}

}  // namespace leat
