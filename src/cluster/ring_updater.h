// SPDX-License-Identifier: Apache-2.0
// RingUpdater: writes the ring while this process leads. Thread-safe.
#pragma once

#include <memory>

#include "cluster/election.h"
#include "cluster/registry_view_source.h"
#include "runtime/executor.h"

namespace leat {

struct RingUpdaterOptions {
  // How long a worker without a lease keeps its place.
  Clock::duration absence_timeout = std::chrono::minutes(10);
  // Debounce after a change: workers that start together cause one ring.
  Clock::duration debounce = std::chrono::milliseconds(500);
  // Minimum time between rings, for each member: 10 s with 1,000.
  // An etcd spends 1.6 ms on sending a
  // ring to one of a thousand workers (docs/design/scale.md).
  Clock::duration interval_per_member = std::chrono::milliseconds(10);
};

class RingUpdater {
 public:
  // All must outlive the updater; stop() must have ended before destruction.
  static std::unique_ptr<RingUpdater> start(Registry& registry, Election& election,
                                            ClusterViewSource& views, RingUpdaterOptions options,
                                            Executor& executor);
  virtual ~RingUpdater() = default;
  virtual Task<> stop() = 0;
};

}  // namespace leat
