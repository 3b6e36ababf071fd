// SPDX-License-Identifier: Apache-2.0
// PreviousOwnerSource: wraps the store at a stripe's present owner. After a ring change it first
// reads from the previous owner's cache, then from the store. After several changes in a row it
// tries two: the owner before the first change seen by this process, and the one before the last.
// All requests but reads go to the store.
#pragma once

#include <string>

#include "cluster/cluster_view.h"
#include "peer/peer_table.h"
#include "source/source.h"

namespace leat {

struct PreviousOwnerOptions {
  WorkerId self{};
  std::string mount{};  // path in the namespace
  // Duration after a ring change, extended while a worker drains. Stripes read in this time have
  // moved; the rest comes from the store.
  Clock::duration transition_time = std::chrono::minutes(10);
  // Timeout: the previous owner serves from its cache only.
  Clock::duration timeout = std::chrono::seconds(2);
  // A previous owner slower than slow_min, or without an answer, is skipped for `pause`, because
  // the store may be faster.
  Clock::duration slow_min = std::chrono::seconds(1);
  Clock::duration backoff = std::chrono::seconds(10);
};

// `views` and `peers` must outlive the source.
SourcePtr make_previous_owner_source(PreviousOwnerOptions options, SourcePtr store,
                                     ClusterViewSource& views, const PeerTable& peers);

}  // namespace leat
