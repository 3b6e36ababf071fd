// SPDX-License-Identifier: Apache-2.0
// Serves the records of a batch with locally available bytes, and marks all others "send alone".
// So no record waits for a store or another worker.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/context.h"
#include "runtime/task.h"
#include "wire/batch.h"
#include "worker/worker_service.h"

namespace leat {

// Returns for every record "send alone".
BatchAnswer all_alone(size_t records);

// Serves from memory at once, and reads from disk together. kNotFound of a record means "send
// alone". `service`, and what `may_read` (by mount) refers to, must outlive the task. `terms` apply
// to the whole batch.
Task<BatchAnswer> answer_batch(WorkerService& service, Context context, PeerRequestHeader terms,
                               std::vector<PeerReadRequest> records,
                               std::function<bool(const std::string&)> may_read);

}  // namespace leat
