// SPDX-License-Identifier: Apache-2.0
// RingKeeper: writes the ring as long as this process leads. Thread-safe.
#pragma once

#include <memory>

#include "cluster/election.h"
#include "cluster/registry_map.h"
#include "runtime/executor.h"

namespace leat {

struct RingKeeperOptions {
  // How long a worker keeps its place without a lease.
  Clock::duration patience = std::chrono::minutes(10);
  // After a change, before it is acted upon: workers that start together come as one change.
  Clock::duration settle = std::chrono::milliseconds(500);
  // After a ring, for each member, before the next one: 10 s among 1,000. etcd spends 1.6 ms on
  // telling one of a thousand workers of a ring (docs/design/scale.md).
  Clock::duration rest = std::chrono::milliseconds(10);
};

class RingKeeper {
 public:
  // All must outlive it, and stop() must have ended before it goes.
  static std::unique_ptr<RingKeeper> start(Registry& registry, Election& election, ClusterMap& map,
                                           RingKeeperOptions options, Executor& executor);
  virtual ~RingKeeper() = default;
  virtual Task<> stop() = 0;
};

}  // namespace leat
