// SPDX-License-Identifier: Apache-2.0
#include "doors/peer/ring_wait.h"

#include <utility>

namespace leat {

Task<ClusterViewPtr> RingWait::view_of(Context context, int64_t epoch) {
  ClusterViewPtr view = map_.view();
  if (view->ring.epoch() >= epoch || pauses()) co_return view;
  // What lies between two rings may be several views.
  const Context bounded = context.with_timeout(options_.wait_max);
  while (view->ring.epoch() < epoch) {
    Result<ClusterViewPtr> news = co_await map_.newer(bounded, view->revision);
    if (!news) {
      if (context.check("")) pause();
      break;
    }
    view = *std::move(news);
  }
  co_return view;
}

bool RingWait::pauses() const {
  std::lock_guard lock(mutex_);
  return Clock::now() < until_;
}

void RingWait::pause() {
  std::lock_guard lock(mutex_);
  until_ = Clock::now() + options_.pause;
}

}  // namespace leat
