// SPDX-License-Identifier: Apache-2.0
// SharedSnapshots: client access to a cluster's snapshots: built once by a worker, held by several,
// fetched from any holder. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/cluster_view.h"
#include "peer/routing/peer_router.h"
#include "peer/snapshots/snapshot_peer.h"
#include "runtime/executor.h"

namespace leat {

class SharedSnapshots {
 public:
  // All must outlive the object.
  SharedSnapshots(ClusterViewSource& views, const PeerTable& peers, Executor& executor)
      : views_(views), peers_(peers), executor_(executor), router_(views, peers) {}

  Task<Result<std::vector<SharedSnapshot>>> list(Context context) const;
  // kNotFound lists the existing names.
  Task<Result<SharedSnapshot>> find(Context context, std::string name) const;
  // Waits until the snapshot is built. One worker builds it once for all clients of that name. If
  // that worker dies, another one starts again. `progress` receives the counts so far.
  Task<Result<SharedSnapshot>> build(Context context, std::string name, std::string folder,
                                     std::function<void(const SnapshotBuild&)> progress) const;
  Task<Result<>> remove(Context context, std::string name) const;

  // Writes the file to `path`, which appears once it is complete and matches its record; one call
  // at a time for each path. Parts may come from several workers; a file with a wrong checksum is
  // fetched again from others. Returns kUnavailable, with the list of workers, if no responding
  // worker has it. Returns kCorrupt if every copy is wrong.
  Task<Result<>> fetch(Context context, SharedSnapshot snapshot, std::string path) const;

 private:
  std::vector<WorkerId> holders(const std::string& name) const;
  Task<Result<std::string>> piece(Context context, SharedSnapshot snapshot, ByteRange range,
                                  std::vector<WorkerId> from) const;
  Task<Result<>> download(Context context, SharedSnapshot snapshot, std::string path,
                          std::vector<WorkerId> from) const;

  ClusterViewSource& views_;
  const PeerTable& peers_;
  Executor& executor_;
  const PeerRouter router_;
};

}  // namespace leat
