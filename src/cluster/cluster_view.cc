// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_view.h"

#include "model/mount_entry.h"

namespace leat {

const ClusterMount* ClusterView::mount_of(std::string_view path) const {
  const ClusterMount* longest = nullptr;
  for (const auto& [at, mount] : mounts) {
    if (!is_at_or_below(path, at)) continue;
    if (longest == nullptr || at.size() > longest->path.size()) longest = &mount;
  }
  return longest;
}

}  // namespace leat
