// SPDX-License-Identifier: Apache-2.0
// A worker's identity lies in its cache directory, so a worker that comes back with another one at
// the same address has lost what it held: the directory was emptied, or is another one.
#pragma once

#include <optional>

#include "cluster/cluster_view.h"

namespace leat {

// The worker that the cluster knew at this worker's address before, if the cluster does not know
// this worker yet. `view`: from before it has joined.
std::optional<WorkerId> worker_before(const ClusterView& view, const WorkerInfo& self);

// Logs and counts it.
void note_lost_cache(const ClusterView& view, const WorkerInfo& self);

}  // namespace leat
