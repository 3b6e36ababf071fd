// SPDX-License-Identifier: Apache-2.0
// SnapshotPeer: a worker's part in the cluster's snapshots: over the network, or in this process.
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "model/byte_range.h"
#include "peer/peer.h"
#include "wire/shared_snapshot.h"

namespace leat {

class SnapshotPeer {
 public:
  virtual ~SnapshotPeer() = default;

  // Returns the existing snapshots by name, as far as the caller may see them.
  virtual Task<PeerReply<std::vector<SharedSnapshot>>> list(Context context) = 0;
  // Starts the build, or waits a moment for the end of a running one. kExists if the caller may not
  // replace an existing one of that name.
  virtual Task<PeerReply<SnapshotBuild>> build(Context context, SnapshotRequest request,
                                               PeerRoute route) = 0;
  // kNotFound if there is none. Returns the size of its file.
  virtual Task<PeerReply<uint64_t>> remove(Context context, std::string name) = 0;
  // For workers: fetches the file from a holder unless present. Returns the size of the file.
  virtual Task<PeerReply<uint64_t>> hold(Context context, SharedSnapshot snapshot) = 0;
  // Reads a part of the file with that id, at most kSnapshotPieceBytes; kNotFound if absent.
  virtual Task<PeerReply<std::string>> read(Context context, Id128 id, ByteRange range) = 0;
};

}  // namespace leat
