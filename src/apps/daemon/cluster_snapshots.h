// SPDX-License-Identifier: Apache-2.0
// ClusterSnapshots: snapshots of clusters that this host mounts: made by workers, once for all who
// mount the cluster, and brought here as files of this host's. Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "apps/cluster/host_cluster.h"
#include "apps/daemon/snapshot_service.h"
#include "catalog/catalog.h"
#include "jobs/snapshot_job.h"
#include "runtime/semaphore.h"

namespace leat {

class ClusterSnapshots {
 public:
  // All outlive it.
  ClusterSnapshots(HostCluster& cluster, SnapshotService& files, Catalog& catalog,
                   Executor& executor)
      : cluster_(cluster), files_(files), catalog_(catalog), executor_(executor) {}

  // As SnapshotElsewhere: the workers make it, and it is brought into `output`.
  Task<Result<std::optional<SnapshotHead>>> build(
      Context context, CatalogEntry folder, std::string output,
      std::function<void(const SnapshotProgress&)> progress);

  // Before a mount goes by the snapshot of that name: the file is here afterwards, if the mount's
  // source is a cluster that has one. Where no worker answers, what is here will do.
  Task<Result<>> bring(Context context, SourcePtr source, std::string name);
  Task<Result<>> bring_for(Context context, std::string mount, std::string name);
  // Before a mount: its snapshot is here and named. One of a cluster with the freshness `snapshot`
  // and no name goes by the newest one that there is of its folder.
  Task<Result<>> prepare(Context context, MountRequest* request);

 private:
  using ClientPtr = std::shared_ptr<ClusterClient>;

  Task<Result<>> fetch(Context context, ClientPtr client, SharedSnapshot wanted, std::string file);

  HostCluster& cluster_;
  SnapshotService& files_;
  Catalog& catalog_;
  Executor& executor_;
  Semaphore fetching_{1};
};

}  // namespace leat
