// SPDX-License-Identifier: Apache-2.0
// MountTtls: how long clients may cache names of a cluster's mounts, from the mount options
// `freshness` and `negative_ttl`.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "cluster/cluster_view.h"
#include "source/source.h"

namespace leat {

// Half of `negative_ttl` is used up by the worker, so half is left for the client. A mount with
// unreadable options gets the default ages.
NameTtl name_ttl_of(const ClusterMount& mount);

// The same for a client's key; cached while the view is the same. Thread-safe.
class MountTtls {
 public:
  // Unbounded above all mounts.
  NameTtl of(const ClusterViewPtr& view, std::string_view key);

 private:
  std::mutex mutex_;  // leaf
  ClusterViewPtr view_;
  std::map<std::string, NameTtl> by_mount_;  // by mount path
};

}  // namespace leat
