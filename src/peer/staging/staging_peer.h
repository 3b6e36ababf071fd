// SPDX-License-Identifier: Apache-2.0
// StagingPeer: a worker's part in staged changes: over the network, or in this process. For workers
// only. Thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "model/byte_range.h"
#include "peer/peer.h"
#include "wire/staging_messages.h"

namespace leat {

class StagingPeer {
 public:
  virtual ~StagingPeer() = default;

  // Requests to the primary; kNotOwner from any other worker.
  // Appends a change and returns the object as the log shows it, without a key for a removal or a
  // rename. Returns kExists or kVersionChanged if the condition does not hold.
  virtual Task<PeerReply<SourceObject>> append(Context context, StagedAppend request) = 0;
  virtual Task<PeerReply<StagedEvents>> events(Context context, StagedEventsRequest request) = 0;
  // Returns how many changes are left, after a moment at most.
  virtual Task<PeerReply<uint64_t>> wait_sent(Context context, StagedWait request) = 0;

  // A member makes events durable and returns the position. kNotOwner for a former term.
  virtual Task<PeerReply<uint64_t>> replicate(Context context, StagedReplicate request) = 0;

  // Requests to a holder. The first two return a number of bytes.
  virtual Task<PeerReply<uint64_t>> put_content(Context context, StagedPiece piece,
                                                std::span<const std::byte> bytes) = 0;
  virtual Task<PeerReply<uint64_t>> drop_content(Context context, Id128 content) = 0;
  virtual Task<PeerReply<std::string>> read_content(Context context, Id128 content,
                                                    ByteRange range) = 0;
  // Sends a save to the store.
  virtual Task<PeerReply<SourceObject>> send_content(Context context, StagedSend request) = 0;
};

}  // namespace leat
