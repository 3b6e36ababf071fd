// SPDX-License-Identifier: Apache-2.0
#include "daemon/unavailable_stores.h"

#include <utility>

#include "source/retry/store_health.h"

namespace leat {

std::vector<UnavailableView> unavailable_stores() {
  std::vector<UnavailableView> views;
  for (StoreOutage& outage : store_outages()) {
    views.push_back({.store = std::move(outage.store),
                     .seconds = std::chrono::duration<double>(outage.lasting).count(),
                     .waiting = outage.waiting,
                     .reason = std::move(outage.reason)});
  }
  return views;
}

}  // namespace leat
