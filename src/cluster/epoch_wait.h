// SPDX-License-Identifier: Apache-2.0
// wait_for_ring_epoch(): waits for a ring that another worker already has.
#pragma once

#include "cluster/cluster_view.h"

namespace leat {

// Returns the newest view. Its ring has `epoch` or a later one, unless `context` ended first.
// `views` must outlive the task.
Task<ClusterViewPtr> wait_for_ring_epoch(Context context, ClusterViewSource& views, int64_t epoch);

}  // namespace leat
