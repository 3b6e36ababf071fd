// SPDX-License-Identifier: Apache-2.0
#include "cluster/ring_arrival.h"

namespace leat {

Task<ClusterViewPtr> await_ring(Context context, ClusterMap& map, int64_t epoch) {
  ClusterViewPtr view = map.view();
  // There may be several views between two rings.
  while (view->ring.epoch() < epoch) {
    Result<ClusterViewPtr> news = co_await map.newer(context, view->revision);
    if (!news) co_return map.view();
    view = *std::move(news);
  }
  co_return view;
}

}  // namespace leat
