// SPDX-License-Identifier: Apache-2.0
// A worker's snapshots over HTTP.
#pragma once

#include <memory>

#include "peer/snapshots/snapshot_peer.h"

namespace leat {

class PeerClient;

// `client` must outlive the result.
std::unique_ptr<SnapshotPeer> make_peer_snapshots(PeerClient& client);

}  // namespace leat
