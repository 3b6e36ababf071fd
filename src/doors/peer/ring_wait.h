// SPDX-License-Identifier: Apache-2.0
// RingWait: has a worker that is asked by a ring which it does not know yet wait for that ring. By
// the one that it knows it would not know who had the bytes before, and ask the store for them.
// Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "cluster/cluster_view.h"

namespace leat {

struct RingWaitOptions {
  Clock::duration wait_max = std::chrono::seconds(1);
  // Where nobody waits for what is asked for.
  Clock::duration upkeep_wait_max = std::chrono::seconds(10);
  // No request waits for a ring so soon after one has waited for it in vain: the worker may be cut
  // off from the registry, and who asks is not.
  Clock::duration pause = std::chrono::minutes(1);
};

class RingWait {
 public:
  // `map` must outlive it.
  explicit RingWait(ClusterMap& map, RingWaitOptions options = {}) : map_(map), options_(options) {}

  // Whether neither of these would wait.
  bool knows(int64_t epoch) const;
  // The newest view; its ring is of `epoch` or later where that came in time.
  Task<ClusterViewPtr> view_of(Context context, int64_t epoch) {
    return wait_for(std::move(context), epoch, options_.wait_max);
  }
  Task<ClusterViewPtr> view_for_upkeep(Context context, int64_t epoch) {
    return wait_for(std::move(context), epoch, options_.upkeep_wait_max);
  }

 private:
  Task<ClusterViewPtr> wait_for(Context context, int64_t epoch, Clock::duration time);
  void note_vain(int64_t epoch);

  ClusterMap& map_;
  const RingWaitOptions options_;
  mutable std::mutex mutex_;                             // leaf
  std::map<int64_t, Clock::time_point> not_waited_for_;  // until then
};

}  // namespace leat
