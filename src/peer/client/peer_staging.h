// SPDX-License-Identifier: Apache-2.0
// A worker's staged changes over HTTP.
#pragma once

#include <memory>

#include "peer/staging/staging_peer.h"

namespace leat {

class PeerClient;

// `client` must outlive the result.
std::unique_ptr<StagingPeer> make_peer_staging(PeerClient& client);

}  // namespace leat
