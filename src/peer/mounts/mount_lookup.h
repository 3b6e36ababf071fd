// SPDX-License-Identifier: Apache-2.0
// Resolves paths of the cluster's namespace: within a mount, or above mounts. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster_view.h"
#include "wire/invalidations.h"

namespace leat {

// A client's key is a path without its leading slash: "data/train/1.jpg"; directories end in '/'.
struct ResolvedKey {
  const ClusterMount* mount = nullptr;  // null: above all mounts
  std::string key{};                    // key in the mount's store
};

ResolvedKey resolve_key(const ClusterView& view, std::string_view key);
// The inverse: `store_key` is below the mount's prefix.
std::string client_key(const ClusterMount& mount, std::string_view store_key);

// Returns the sorted names directly below the directory `key` ("" or ending in '/') that are mounts
// or ancestors of mounts.
std::vector<std::string> mounted_names(const ClusterView& view, std::string_view key);
// Returns true if the directory is a mount or an ancestor of one.
bool is_mount_or_ancestor(const ClusterView& view, std::string_view key);

// Return namespace paths: of the changed thing, and of the directory to list again. For an object
// that is its parent directory.
std::string invalidated_path(const Invalidation& invalidation);
std::string invalidated_directory(const Invalidation& invalidation);

}  // namespace leat
