// SPDX-License-Identifier: Apache-2.0
// SnapshotKeeper: this worker's part in the cluster's snapshots: it makes those that it is the
// first candidate for, once for all who ask, and holds copies of those that it is one of the first
// three for, so that a snapshot outlives who made it. Thread-safe.
//
// A snapshot that is made again is another one, since the store has gone on meanwhile: that is why
// copies are held, and what is lost is not rebuilt. It is there, under its name, from the moment on
// that its record is in the registry, which is after the copies. Two workers that both take
// themselves for the first candidate may both make one: the second to write the record finds that
// of the first, and gives that as its answer.
#pragma once

#include <memory>
#include <string>

#include "cluster/cluster_view.h"
#include "cluster/registry.h"
#include "doors/peer/snapshots/snapshot_shelf.h"
#include "peer/peer_table.h"
#include "peer/snapshots/snapshot_peer.h"
#include "runtime/executor.h"

namespace leat {

struct SnapshotKeeperParts {
  WorkerId self;
  Registry& registry;
  ClusterMap& map;
  const PeerTable& peers;
  std::string directory{};  // of the files
  size_t copies = 3;
  // Between looks at what is to be held and what is not any more.
  Clock::duration looked_at = std::chrono::seconds(10);
};

class SnapshotKeeper : public SnapshotPeer {
 public:
  // All of `parts` and `executor` outlive it, and stop() must have ended before it goes. Blocks.
  static std::unique_ptr<SnapshotKeeper> start(SnapshotKeeperParts parts, Executor& executor);

  // What is here, for who sends it by the kernel.
  virtual std::optional<SnapshotShelf::Held> held(const Id128& id) const = 0;
  virtual Task<> stop() = 0;
};

}  // namespace leat
