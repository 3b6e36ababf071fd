// SPDX-License-Identifier: Apache-2.0
// RingWait: makes a request with a newer ring epoch wait until this worker has that ring. With the
// older ring it would not know the previous owner, and would read the store. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "cluster/cluster_view.h"

namespace leat {

struct RingWaitOptions {
  Clock::duration wait_max = std::chrono::seconds(1);
  // For cache operations, where no reader waits.
  Clock::duration upkeep_wait_max = std::chrono::seconds(10);
  // After a wait in vain, no request waits for that epoch during this time. The worker may be cut
  // off from the registry while the sender is not.
  Clock::duration pause = std::chrono::minutes(1);
};

class RingWait {
 public:
  // `map` must outlive the object.
  explicit RingWait(ClusterMap& map, RingWaitOptions options = {}) : map_(map), options_(options) {}

  // Returns true if the functions below would not wait.
  bool knows(int64_t epoch) const;
  // Returns the newest view. Its ring has `epoch` or a later one, if that came in time.
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
  std::map<int64_t, Clock::time_point> not_waited_for_;  // no wait until then
};

}  // namespace leat
