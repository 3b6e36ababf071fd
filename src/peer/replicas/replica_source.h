// SPDX-License-Identifier: Apache-2.0
// ReplicaSource: a store's bytes as a worker gets them that answers for a stripe beside its first
// candidate: from that one, which asks the store, or from whoever stands in its place. Never asks
// the store: kBusy where no worker before this one answers, since this one is the first then.
// Reads only.
#pragma once

#include "cluster/cluster_view.h"
#include "peer/peer_router.h"
#include "source/source.h"

namespace leat {

// `map` and `peers` must outlive it.
SourcePtr make_replica_source(WorkerId self, StoreId store, ClusterMap& map,
                              const PeerTable& peers);

}  // namespace leat
