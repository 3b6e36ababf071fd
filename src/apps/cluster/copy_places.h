// SPDX-License-Identifier: Apache-2.0
// CopyPlaces: where this worker copies to: the stores of the cluster's mounts, and those of URLs,
// with this worker's credentials. Thread-safe.
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
  // Both outlive it.
  CopyPlaces(ClusterMap& map, const LocalPaths& local) : map_(map), local_(local) {}

  // kNotFound where nothing is mounted; kUnsupported for a store that takes no changes;
  // kPermissionDenied for files that `local` does not allow. Asks no store anything.
  Result<CopyRuns::Place> find(const CopyGoal& goal);

 private:
  struct Opened {
    std::string what;  // a URL, or a mount with all that belongs to it
    SourcePtr source;
  };

  Result<CopyRuns::Place> find_mounted(const CopyGoal& goal);
  Result<CopyRuns::Place> find_url(const CopyGoal& goal);
  // Opened once for many files.
  template <class Open>
  Result<SourcePtr> opened(const std::string& what, Open open);

  ClusterMap& map_;
  const LocalPaths& local_;
  std::mutex mutex_;           // leaf
  std::deque<Opened> opened_;  // the last used last
};

}  // namespace leat
