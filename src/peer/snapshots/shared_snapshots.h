// SPDX-License-Identifier: Apache-2.0
// SharedSnapshots: the snapshots of a cluster, for who wants one: made once by a worker, held by
// several, and fetched from whichever has it. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/cluster_view.h"
#include "peer/peer_router.h"
#include "peer/snapshots/snapshot_peer.h"
#include "runtime/executor.h"

namespace leat {

class SharedSnapshots {
 public:
  // All must outlive it.
  SharedSnapshots(ClusterMap& map, const PeerTable& peers, Executor& executor)
      : map_(map), peers_(peers), executor_(executor), router_(map, peers) {}

  Task<Result<std::vector<SharedSnapshot>>> list(Context context) const;
  // kNotFound names what there is.
  Task<Result<SharedSnapshot>> find(Context context, std::string name) const;
  // Returns when it is made: by a worker, once, whoever asks for that name meanwhile. Who dies over
  // it is followed by another one, which begins anew. `progress` hears of it so far.
  Task<Result<SharedSnapshot>> build(Context context, std::string name, std::string folder,
                                     std::function<void(const SnapshotBuild&)> progress) const;
  Task<Result<>> remove(Context context, std::string name) const;

  // Writes the file to `path`, which is there when it is whole and what its record says; one at a
  // time for each path. It may come in parts from several workers; what does not match its checksum
  // is fetched again from others. kUnavailable where nobody who answers has it: says who was asked.
  // kCorrupt where no worker's is what it should be.
  Task<Result<>> fetch(Context context, SharedSnapshot snapshot, std::string path) const;

 private:
  std::vector<WorkerId> holders(const std::string& name) const;
  Task<Result<std::string>> piece(Context context, SharedSnapshot snapshot, ByteRange range,
                                  std::vector<WorkerId> from) const;
  Task<Result<>> download(Context context, SharedSnapshot snapshot, std::string path,
                          std::vector<WorkerId> from) const;

  ClusterMap& map_;
  const PeerTable& peers_;
  Executor& executor_;
  const PeerRouter router_;
};

}  // namespace leat
