// SPDX-License-Identifier: Apache-2.0
#include "cluster/epoch_wait.h"

namespace leat {

Task<ClusterViewPtr> wait_for_ring_epoch(Context context, ClusterViewSource& views, int64_t epoch) {
  ClusterViewPtr view = views.view();
  // There may be several views between two rings.
  while (view->ring.epoch() < epoch) {
    Result<ClusterViewPtr> newer = co_await views.newer(context, view->revision);
    if (!newer) co_return views.view();
    view = *std::move(newer);
  }
  co_return view;
}

}  // namespace leat
