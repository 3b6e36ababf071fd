// SPDX-License-Identifier: Apache-2.0
// Detects a worker that lost its cache. A worker's identity is stored in its cache directory. So
// another identity at the same address means that the directory was emptied or replaced.
#pragma once

#include <optional>

#include "cluster/cluster_view.h"

namespace leat {

// Returns the worker that the cluster knew at this worker's address before, unless the cluster
// already knows this worker. `view` must be older than the worker's own record.
std::optional<WorkerId> previous_worker(const ClusterView& view, const WorkerInfo& self);

// Logs and counts a lost cache.
void report_lost_cache(const ClusterView& view, const WorkerInfo& self);

}  // namespace leat
