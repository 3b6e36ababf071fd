// SPDX-License-Identifier: Apache-2.0
// ClusterMounts: keeps the mounts of a worker's catalog equal to the cluster's view. A mount that
// this worker cannot open, for example without credentials, is retried; the other workers serve it
// meanwhile. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cache/page_store.h"
#include "catalog/catalog.h"
#include "cluster/cluster_view.h"
#include "source/source.h"
#include "worker/local_paths.h"

namespace leat {

// A cluster's mount as opened on this host.
struct OpenedMount {
  MountEntry entry;
  SourcePtr source;
  std::map<PoolId, PoolPolicy> pools;
  uint32_t replicas = 1;      // ClusterMount::replicas, from the options
  uint32_t write_copies = 0;  // ClusterMount::write_copies, from the options
};

// Options that only mounts of a cluster have: 1 to kReplicasMax.
inline constexpr std::string_view kReplicasOption = "replicas";
inline constexpr std::string_view kWriteCopiesOption = "write_copies";

// Parses a mount for a worker's catalog, even if this host cannot open its source. kInvalidArgument
// if it is malformed.
Result<MountEntry> cluster_mount_entry(const ClusterMount& mount);
// Sends no request to the store. kPermissionDenied for files that `local` does not allow.
Result<OpenedMount> open_cluster_mount(const ClusterMount& mount, const LocalPaths& local);

class ClusterMounts {
 public:
  // `wrap` adds the layers in front of a store. `store` may be null. `local` outlives it.
  using Wrap = std::function<SourcePtr(const ClusterMount&, SourcePtr)>;
  ClusterMounts(Catalog& catalog, PageStore* store, const LocalPaths& local, Wrap wrap)
      : catalog_(catalog), store_(store), local_(local), wrap_(std::move(wrap)) {}

  // Makes the catalog's mounts equal to those of `view`. One call at a time.
  Task<> follow(ClusterViewPtr view);
  // Returns the policy of the mount at that path; null if it is not served.
  std::shared_ptr<const Policy> policy_of(const std::string& path) const;
  // Returns why a mount is not served; nothing if it is.
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
