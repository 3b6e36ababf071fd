// SPDX-License-Identifier: Apache-2.0
// HandOverSource: put before a store by its owner of today: after a change of the ring it asks the
// owner of before whether it has cached what is wanted, and only then the store. Of changes that
// follow each other: the owner before the first of them, as far as this process has seen them, and
// the one before the last. Everything but reads goes to the store.
#pragma once

#include <string>

#include "cluster/cluster_view.h"
#include "peer/peer_table.h"
#include "source/source.h"

namespace leat {

struct HandOverOptions {
  WorkerId self{};
  std::string mount{};  // path in the cluster's namespace
  // After a change of the ring, and longer where a worker leaves and is still there; what was asked
  // for since has moved, the rest is asked of the store.
  Clock::duration lasts = std::chrono::minutes(10);
  // The owner of before has it or has not; it is not waited for longer.
  Clock::duration answer_max = std::chrono::seconds(2);
  // One that took so long, or did not answer, is not asked for some time: the store may be faster.
  Clock::duration slow_min = std::chrono::seconds(1);
  Clock::duration pause = std::chrono::seconds(10);
};

// `map` and `peers` must outlive it.
SourcePtr make_hand_over_source(HandOverOptions options, SourcePtr store, ClusterMap& map,
                                const PeerTable& peers);

}  // namespace leat
