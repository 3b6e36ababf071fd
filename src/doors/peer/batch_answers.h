// SPDX-License-Identifier: Apache-2.0
// Answers the records of a batch with locally available bytes, and marks all others "send alone".
// So no record waits for a store or another worker.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "doors/peer/own_peer.h"
#include "peer/batch.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

// Answers every record with "send alone".
BatchAnswer all_alone(size_t records);

// Answers from memory at once, and reads from disk together. kNotFound of a record means "send
// alone". `own`, and what `may_read` (by mount) refers to, must outlive the task. `terms` apply to
// the whole batch.
Task<BatchAnswer> answer_batch(OwnPeer& own, Context context, PeerTerms terms,
                               std::vector<PeerReadRequest> records,
                               std::function<bool(const std::string&)> may_read);

}  // namespace leat
