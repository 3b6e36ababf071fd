// SPDX-License-Identifier: Apache-2.0
// await_ring(): waits for a ring that another worker already has.
#pragma once

#include "cluster/cluster_view.h"

namespace leat {

// Returns the newest view. Its ring has `epoch` or a later one, unless `context` ended first. `map`
// must outlive the task.
Task<ClusterViewPtr> await_ring(Context context, ClusterMap& map, int64_t epoch);

}  // namespace leat
