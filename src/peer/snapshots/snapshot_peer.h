// SPDX-License-Identifier: Apache-2.0
// SnapshotPeer: what a worker has to do with the cluster's snapshots, as those who want them see
// it: over the network, or this process itself. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "model/byte_range.h"
#include "peer/peer.h"
#include "peer/snapshots/shared_snapshot.h"

namespace leat {

class SnapshotPeer {
 public:
  virtual ~SnapshotPeer() = default;

  // Those that there are, by name, as far as the asker may see them.
  virtual Task<PeerReply<std::vector<SharedSnapshot>>> list(Context context) = 0;
  // Begins to make it, or, where that has begun, waits a moment for its end. kExists where there is
  // one of that name that the asker may not replace.
  virtual Task<PeerReply<SnapshotBuild>> build(Context context, SnapshotOrder order,
                                               PeerRoute route) = 0;
  // kNotFound where there is none. The number of bytes of its file.
  virtual Task<PeerReply<uint64_t>> remove(Context context, std::string name) = 0;
  // Has it fetch the file from who has it, if it has it not: for workers. The bytes of the file.
  virtual Task<PeerReply<uint64_t>> hold(Context context, SharedSnapshot snapshot) = 0;
  // A part of the file of that id; kNotFound where it has not got it. At most kSnapshotPieceBytes.
  virtual Task<PeerReply<std::string>> read(Context context, Id128 id, ByteRange range) = 0;
};

}  // namespace leat
