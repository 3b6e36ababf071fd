// SPDX-License-Identifier: Apache-2.0
// WorkerSnapshotService: this worker's part in the cluster's snapshots. As owner it builds a
// snapshot, once for all clients. As one of the first three it holds a copy, so that a snapshot
// survives its builder. Thread-safe.
//
// A rebuilt snapshot differs, because the store has changed meanwhile. So copies are held, and a
// lost snapshot is not rebuilt. A snapshot exists under its name once its record is in the
// registry, which is written after the copies. Two workers that both consider themselves the
// owner may both build one. The second to write the record finds the first one's and returns
// that.
#pragma once

#include <memory>
#include <string>

#include "cluster/cluster_view.h"
#include "cluster/registry.h"
#include "peer/peer_table.h"
#include "peer/snapshots/snapshot_peer.h"
#include "runtime/executor.h"
#include "worker/snapshots/snapshot_files.h"

namespace leat {

struct WorkerSnapshotServiceDeps {
  WorkerId self;
  Registry& registry;
  ClusterViewSource& views;
  const PeerTable& peers;
  std::string directory{};  // of the files
  size_t copies = 3;
  // Interval of the checks for missing copies and removed snapshots.
  Clock::duration check_interval = std::chrono::seconds(10);
};

class WorkerSnapshotService : public SnapshotPeer {
 public:
  // All of `deps` and `executor` must outlive the object; stop() must have ended before
  // destruction. Blocks.
  static std::unique_ptr<WorkerSnapshotService> start(WorkerSnapshotServiceDeps deps,
                                                      Executor& executor);

  // Returns a file held here, for sendfile.
  virtual std::optional<SnapshotFiles::StoredSnapshot> find_stored(const Id128& id) const = 0;
  virtual Task<> stop() = 0;
};

}  // namespace leat
