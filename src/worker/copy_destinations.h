// SPDX-License-Identifier: Apache-2.0
// CopyDestinations: resolves and opens the destinations of copies: stores of the cluster's mounts
// and of URLs, with this worker's credentials. Thread-safe.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "cluster/cluster_view.h"
#include "worker/copy_sessions.h"
#include "worker/local_paths.h"

namespace leat {

class CopyDestinations {
 public:
  // Both must outlive it.
  CopyDestinations(ClusterViewSource& views, const LocalPaths& local)
      : views_(views), local_(local) {}

  // kNotFound if nothing is mounted; kUnsupported for a read-only store; kPermissionDenied for
  // files that `local` does not allow. Sends no request to a store.
  Result<CopySessions::Destination> find(const CopySpec& spec);

 private:
  struct OpenSource {
    std::string key;  // a URL, or a mount with all its options
    SourcePtr source;
  };

  Result<CopySessions::Destination> resolve_key(const CopySpec& spec);
  Result<CopySessions::Destination> find_url(const CopySpec& spec);
  // Returns a cached source, so that many files share one.
  template <class Open>
  Result<SourcePtr> open_cached(const std::string& key, Open open);

  ClusterViewSource& views_;
  const LocalPaths& local_;
  std::mutex mutex_;             // leaf
  std::deque<OpenSource> open_;  // least recently used first
};

}  // namespace leat
