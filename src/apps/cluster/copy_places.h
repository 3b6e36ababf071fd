// SPDX-License-Identifier: Apache-2.0
// CopyPlaces: opens destinations of copies: stores of the cluster's mounts and of URLs, with this
// worker's credentials. Thread-safe.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "apps/cluster/local_paths.h"
#include "cluster/cluster_view.h"
#include "doors/peer/copy_runs.h"

namespace leat {

class CopyPlaces {
 public:
  // Both must outlive it.
  CopyPlaces(ClusterMap& map, const LocalPaths& local) : map_(map), local_(local) {}

  // kNotFound if nothing is mounted; kUnsupported for a read-only store; kPermissionDenied for
  // files that `local` does not allow. Sends no request to a store.
  Result<CopyRuns::Place> find(const CopyGoal& goal);

 private:
  struct Opened {
    std::string what;  // a URL, or a mount with all its options
    SourcePtr source;
  };

  Result<CopyRuns::Place> find_mounted(const CopyGoal& goal);
  Result<CopyRuns::Place> find_url(const CopyGoal& goal);
  // Returns a cached source, so that many files share one.
  template <class Open>
  Result<SourcePtr> opened(const std::string& what, Open open);

  ClusterMap& map_;
  const LocalPaths& local_;
  std::mutex mutex_;           // leaf
  std::deque<Opened> opened_;  // least recently used first
};

}  // namespace leat
