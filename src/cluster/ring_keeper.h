// SPDX-License-Identifier: Apache-2.0
// RingKeeper: writes the ring while this process leads. Thread-safe.
#pragma once

#include <memory>

#include "cluster/election.h"
#include "cluster/registry_map.h"
#include "runtime/executor.h"

namespace leat {

struct RingKeeperOptions {
  // How long a worker without a lease keeps its place.
  Clock::duration patience = std::chrono::minutes(10);
  // Debounce after a change: workers that start together cause one ring.
  Clock::duration settle = std::chrono::milliseconds(500);
  // Minimum time between rings, for each member: 10 s with 1,000.
  // An etcd spends 1.6 ms on sending a
  // ring to one of a thousand workers (docs/design/scale.md).
  Clock::duration rest = std::chrono::milliseconds(10);
};

class RingKeeper {
 public:
  // All must outlive the keeper; stop() must have ended before destruction.
  static std::unique_ptr<RingKeeper> start(Registry& registry, Election& election, ClusterMap& map,
                                           RingKeeperOptions options, Executor& executor);
  virtual ~RingKeeper() = default;
  virtual Task<> stop() = 0;
};

}  // namespace leat
