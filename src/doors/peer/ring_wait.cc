// SPDX-License-Identifier: Apache-2.0
#include "doors/peer/ring_wait.h"

#include "cluster/ring_arrival.h"

namespace leat {
namespace {

// Real epochs are few; more are made up by a client.
constexpr size_t kNotWaitedForMax = 64;

}  // namespace

bool RingWait::knows(int64_t epoch) const {
  if (map_.view()->ring.epoch() >= epoch) return true;
  std::lock_guard lock(mutex_);
  const auto found = not_waited_for_.find(epoch);
  return found != not_waited_for_.end() && Clock::now() < found->second;
}

Task<ClusterViewPtr> RingWait::wait_for(Context context, int64_t epoch, Clock::duration time) {
  if (knows(epoch)) co_return map_.view();
  ClusterViewPtr view = co_await await_ring(context.with_timeout(time), map_, epoch);
  if (view->ring.epoch() < epoch && context.check("")) note_vain(epoch);
  co_return view;
}

void RingWait::note_vain(int64_t epoch) {
  const Clock::time_point now = Clock::now();
  std::lock_guard lock(mutex_);
  std::erase_if(not_waited_for_, [&](const auto& one) { return one.second <= now; });
  if (not_waited_for_.size() == kNotWaitedForMax) not_waited_for_.clear();
  not_waited_for_[epoch] = now + options_.pause;
}

}  // namespace leat
