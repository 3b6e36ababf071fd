// SPDX-License-Identifier: Apache-2.0
// ReplicaSource: the source of a worker that serves a stripe as a replica. Reads from the first
// candidate, which may read the store, or from its failover. Never reads the store: kBusy if no
// earlier candidate responds, because this worker is the first then. Reads only.
#pragma once

#include "cluster/cluster_view.h"
#include "peer/routing/peer_router.h"
#include "source/source.h"

namespace leat {

// `views` and `peers` must outlive the source.
SourcePtr make_replica_source(WorkerId self, StoreId store, ClusterViewSource& views,
                              const PeerTable& peers);

}  // namespace leat
