// SPDX-License-Identifier: Apache-2.0
// EpochWaiter: makes a request with a newer ring epoch wait until this worker has that ring. With
// the older ring it would not know the previous owner, and would read the store. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "cluster/cluster_view.h"

namespace leat {

struct EpochWaiterOptions {
  Clock::duration wait_max = std::chrono::seconds(1);
  // For cache operations, where no reader waits.
  Clock::duration cache_op_wait_max = std::chrono::seconds(10);
  // After a timeout, no request waits for that epoch during this time. The worker may be cut
  // off from the registry while the sender is not.
  Clock::duration backoff = std::chrono::minutes(1);
};

class EpochWaiter {
 public:
  // `views` must outlive the object.
  explicit EpochWaiter(ClusterViewSource& views, EpochWaiterOptions options = {})
      : views_(views), options_(options) {}

  // Returns true if the functions below would not wait.
  bool has_epoch(int64_t epoch) const;
  // Returns the newest view. Its ring has `epoch` or a later one, if that came in time.
  Task<ClusterViewPtr> wait_for_epoch(Context context, int64_t epoch) {
    return wait_for(std::move(context), epoch, options_.wait_max);
  }
  Task<ClusterViewPtr> wait_for_epoch_of_cache_op(Context context, int64_t epoch) {
    return wait_for(std::move(context), epoch, options_.cache_op_wait_max);
  }

 private:
  Task<ClusterViewPtr> wait_for(Context context, int64_t epoch, Clock::duration timeout);
  void record_timeout(int64_t epoch);

  ClusterViewSource& views_;
  const EpochWaiterOptions options_;
  mutable std::mutex mutex_;                            // leaf
  std::map<int64_t, Clock::time_point> backoff_until_;  // no wait until then
};

}  // namespace leat
