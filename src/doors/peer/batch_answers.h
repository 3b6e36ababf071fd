// SPDX-License-Identifier: Apache-2.0
// What a worker answers to the records of a batch: the bytes that it has, and of all else that it
// is to be asked for alone. So no record waits for a store, or for another worker.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "doors/peer/own_peer.h"
#include "peer/batch.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

// To each that it is to be asked for alone.
BatchAnswer all_alone(size_t records);

// What is in memory is there at once; what is on disk is read together. kNotFound of a record: it
// is to be asked for alone. `own` outlives the task, and so does what `may_read`, by mount, refers
// to. The terms are those of the whole.
Task<BatchAnswer> answer_batch(OwnPeer& own, Context context, PeerTerms terms,
                               std::vector<PeerReadRequest> records,
                               std::function<bool(const std::string&)> may_read);

}  // namespace leat
