// SPDX-License-Identifier: Apache-2.0
// WritePeer: changes of stores through a worker: over the network, or in this process. The worker
// refreshes its names after a change, and notifies the clients and the other workers. Thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "peer/peer.h"
#include "wire/write_request.h"

namespace leat {

class WritePeer {
 public:
  virtual ~WritePeer() = default;

  // Writes an object, a piece of one or a directory. Returns what Source::write does, or an object
  // without a key if more pieces follow. All pieces go to the worker that has the first one, and a
  // piece may be repeated. kUnavailable for a piece of a write that is not in progress there.
  virtual Task<PeerReply<SourceObject>> write(Context context, PeerWrite request, PeerRoute route,
                                              std::span<const std::byte> content) = 0;
  // Returns the new or changed object; one without a key after a removal or a rename.
  virtual Task<PeerReply<SourceObject>> change(Context context, PeerChange request,
                                               PeerRoute route) = 0;
};

}  // namespace leat
