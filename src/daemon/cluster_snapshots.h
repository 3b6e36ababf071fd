// SPDX-License-Identifier: Apache-2.0
// ClusterSnapshots: snapshots of mounted clusters. Workers make each once for all clients, and this
// host fetches it as a file. Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "catalog/catalog.h"
#include "daemon/cluster/cluster_service.h"
#include "daemon/snapshot_service.h"
#include "jobs/snapshot_job.h"
#include "runtime/semaphore.h"

namespace leat {

class ClusterSnapshots {
 public:
  // All must outlive it.
  ClusterSnapshots(ClusterService& cluster, SnapshotService& files, Catalog& catalog,
                   Executor& executor)
      : cluster_(cluster), files_(files), catalog_(catalog), executor_(executor) {}

  // Implements RemoteSnapshotBuilder: the workers make the snapshot, and it is fetched into
  // `output`.
  Task<Result<std::optional<SnapshotHead>>> build(
      Context context, CatalogEntry folder, std::string output,
      std::function<void(const SnapshotProgress&)> progress);

  // Call before a mount uses the snapshot of that name: fetches the file if the mount's source is a
  // cluster that has one. If no worker responds, an existing local file is used.
  Task<Result<>> ensure_local(Context context, SourcePtr source, std::string name);
  Task<Result<>> ensure_local_for(Context context, std::string mount, std::string name);
  // Call before a mount: fetches its snapshot, and sets its name. For a cluster with the freshness
  // `snapshot` and no name, it selects the newest snapshot of the folder.
  Task<Result<>> prepare(Context context, MountRequest* request);

 private:
  using ClientPtr = std::shared_ptr<ClusterClient>;

  Task<Result<>> fetch(Context context, ClientPtr client, SharedSnapshot wanted, std::string file);

  ClusterService& cluster_;
  SnapshotService& files_;
  Catalog& catalog_;
  Executor& executor_;
  Semaphore fetching_{1};
};

}  // namespace leat
