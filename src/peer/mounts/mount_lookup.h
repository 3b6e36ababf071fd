// SPDX-License-Identifier: Apache-2.0
// What a path of the cluster's namespace is: in a mount, or above some. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster_view.h"
#include "peer/changes.h"

namespace leat {

// A client's key is a path without its leading slash: "data/train/1.jpg", of directories "data/".
struct MountedKey {
  const ClusterMount* mount = nullptr;  // null: above all mounts
  std::string key{};                    // in the mount's store
};

MountedKey find_mounted(const ClusterView& view, std::string_view key);
// The other way, for a key of the store below the mount's prefix.
std::string client_key(const ClusterMount& mount, std::string_view store_key);

// Names directly below the directory `key` ("" or ending in '/') that are mounts or lead to one,
// sorted.
std::vector<std::string> mounted_names(const ClusterView& view, std::string_view key);
// Whether the directory is a mount, or leads to one.
bool leads_to_mount(const ClusterView& view, std::string_view key);

// Paths of the namespace: of what changed, and of the directory to be listed again for it, which of
// an object is the one that it is in.
std::string changed_path(const PeerChange& change);
std::string changed_directory(const PeerChange& change);

}  // namespace leat
