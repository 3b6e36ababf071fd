// SPDX-License-Identifier: Apache-2.0
// MountTtls: for how long clients may cache names of a cluster's mounts, as the mounts' own options
// `freshness` and `negative_age` say.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "cluster/cluster_view.h"
#include "source/source.h"

namespace leat {

// Half of `negative_age` is the worker's, so half is left for the client. A mount whose options
// cannot be read has the default ages.
NameTtl name_ttl_of(const ClusterMount& mount);

// The same for a client's key, from memory while the view stays the same. Thread-safe.
class MountTtls {
 public:
  // Unbounded above all mounts.
  NameTtl of(const ClusterViewPtr& view, std::string_view key);

 private:
  std::mutex mutex_;  // leaf
  ClusterViewPtr view_;
  std::map<std::string, NameTtl> by_mount_;  // by path
};

}  // namespace leat
