// SPDX-License-Identifier: Apache-2.0
// Changes of stores through a worker over HTTP.
#pragma once

#include <memory>

#include "peer/writing/write_peer.h"

namespace leat {

class PeerClient;

// `client` must outlive the result.
std::unique_ptr<WritePeer> make_peer_writes(PeerClient& client);

}  // namespace leat
