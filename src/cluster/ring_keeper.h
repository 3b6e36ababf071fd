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
