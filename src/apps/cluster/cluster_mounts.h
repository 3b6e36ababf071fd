// SPDX-License-Identifier: Apache-2.0
// ClusterMounts: the cluster's mounts in a worker's catalog: it follows the view. A mount that this
// worker cannot open, for want of credentials, say, is tried again, and everybody else goes on
// without this worker's answers for it. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "apps/cluster/local_paths.h"
#include "cache/page_store.h"
#include "catalog/catalog.h"
#include "cluster/cluster_view.h"
#include "source/source.h"

namespace leat {

// What a mount comes to on this host.
struct OpenedMount {
  MountEntry entry;
  SourcePtr source;
  std::map<PoolId, PoolPolicy> pools;
  uint32_t replicas = 1;  // ClusterMount::replicas, as the options say
};

// An option of a cluster's mount that a mount of a host does not have: 1 to kReplicasMax.
inline constexpr std::string_view kReplicasOption = "replicas";

// How workers keep it; its source may be none that this host can open. kInvalidArgument for what
// is wrong in it.
Result<MountEntry> cluster_mount_entry(const ClusterMount& mount);
// Asks the store nothing. kPermissionDenied for files that `local` does not allow.
Result<OpenedMount> open_cluster_mount(const ClusterMount& mount, const LocalPaths& local);

class ClusterMounts {
 public:
  // `wrap` puts what belongs before a store around it. `store` may be null. `local` outlives it.
  using Wrap = std::function<SourcePtr(const ClusterMount&, SourcePtr)>;
  ClusterMounts(Catalog& catalog, PageStore* store, const LocalPaths& local, Wrap wrap)
      : catalog_(catalog), store_(store), local_(local), wrap_(std::move(wrap)) {}

  // The catalog's mounts are those of `view` afterwards. One at a time.
  Task<> follow(ClusterViewPtr view);
  // How the mount at that path is kept; null where it is not served.
  std::shared_ptr<const Policy> policy_of(const std::string& path) const;
  // Why a mount is not served; nothing for one that is.
  std::optional<Status> trouble(const std::string& path) const;

 private:
  struct Served {
    ClusterMount mount;
    std::shared_ptr<const Policy> policy;
  };

  Result<> add(const ClusterMount& mount);
  void note(const std::string& path, const Result<>& added);

  Catalog& catalog_;
  PageStore* const store_;
  const LocalPaths& local_;
  const Wrap wrap_;
  mutable std::mutex mutex_;  // leaf
  std::map<std::string, Served> mounted_;
  std::map<std::string, Status> troubles_;
};

}  // namespace leat
