// SPDX-License-Identifier: Apache-2.0
#include "peer/replication/replica_hints.h"

#include <algorithm>

namespace leat {

uint32_t ReplicaHints::replicas(PlacementKey stripe) const {
  if (count_.load(std::memory_order_relaxed) == 0) return 1;
  std::lock_guard lock(mutex_);
  const auto found = hints_.find(stripe.hash);
  return found != hints_.end() && options_.now() < found->second.until ? found->second.replicas : 1;
}

void ReplicaHints::store(PlacementKey stripe, ReplicaHint hint) {
  const bool more = hint.replicas > 1 && hint.ttl.count() > 0;
  if (!more && count_.load(std::memory_order_relaxed) == 0) return;
  const Clock::time_point now = options_.now();
  std::lock_guard lock(mutex_);
  if (!more) {
    hints_.erase(stripe.hash);
  } else {
    if (hints_.size() >= options_.stripes_max && !hints_.contains(stripe.hash)) {
      boost::unordered::erase_if(hints_, [&](const auto& one) { return one.second.until <= now; });
      if (hints_.size() >= options_.stripes_max) {
        hints_.erase(
            std::ranges::min_element(hints_, {}, [](const auto& one) { return one.second.until; }));
      }
    }
    hints_[stripe.hash] = {std::min(hint.replicas, kReplicasMax), now + hint.ttl};
  }
  count_.store(hints_.size(), std::memory_order_relaxed);
}

}  // namespace leat
