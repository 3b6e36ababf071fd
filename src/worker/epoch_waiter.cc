// SPDX-License-Identifier: Apache-2.0
#include "worker/epoch_waiter.h"

#include "cluster/epoch_wait.h"

namespace leat {
namespace {

// Real epochs are few; more are made up by a client.
constexpr size_t kBackoffsMax = 64;

}  // namespace

bool EpochWaiter::has_epoch(int64_t epoch) const {
  if (views_.view()->ring.epoch() >= epoch) return true;
  std::lock_guard lock(mutex_);
  const auto found = backoff_until_.find(epoch);
  return found != backoff_until_.end() && Clock::now() < found->second;
}

Task<ClusterViewPtr> EpochWaiter::wait_for(Context context, int64_t epoch,
                                           Clock::duration timeout) {
  if (has_epoch(epoch)) co_return views_.view();
  ClusterViewPtr view = co_await wait_for_ring_epoch(context.with_timeout(timeout), views_, epoch);
  if (view->ring.epoch() < epoch && context.check("")) record_timeout(epoch);
  co_return view;
}

void EpochWaiter::record_timeout(int64_t epoch) {
  const Clock::time_point now = Clock::now();
  std::lock_guard lock(mutex_);
  std::erase_if(backoff_until_, [&](const auto& one) { return one.second <= now; });
  if (backoff_until_.size() == kBackoffsMax) backoff_until_.clear();
  backoff_until_[epoch] = now + options_.backoff;
}

}  // namespace leat
