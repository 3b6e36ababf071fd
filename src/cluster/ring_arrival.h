// SPDX-License-Identifier: Apache-2.0
// await_ring(): waits for a ring that somebody else knows already.
#pragma once

#include "cluster/cluster_view.h"

namespace leat {

// The newest view; its ring is of `epoch` or later, unless `context` ended first. `map` must
// outlive the task.
Task<ClusterViewPtr> await_ring(Context context, ClusterMap& map, int64_t epoch);

}  // namespace leat
