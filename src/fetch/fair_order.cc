// SPDX-License-Identifier: Apache-2.0
#include "fetch/fair_order.h"

#include <algorithm>

#include "base/check.h"

namespace leat {

FairOrder::Place FairOrder::enter(uint64_t flow, uint64_t cost, bool yields) {
  Flow& of = flows_[flow];
  const uint64_t start = std::max(now_, of.end);
  of.end = start + cost;
  if (of.waiting++ == 0) ++waiting_flows_;
  return {.yields = yields, .end = of.end, .arrived = ++arrivals_, .start = start};
}

// The virtual time advances as if all waiting flows were served at once, each a part of `cost`. So
// a continuous supply of new flows does not delay an old one for ever.
void FairOrder::served(const Place& place, uint64_t flow, uint64_t cost) {
  now_ = std::max(now_, place.start) + cost / waiting_flows_;
  waits_no_more(flow);
}

void FairOrder::left(const Place& place, uint64_t flow) {
  auto of = flows_.find(flow);
  LEAT_CHECK(of != flows_.end());
  if (of->second.end == place.end) of->second.end = place.start;
  waits_no_more(flow);
}

void FairOrder::waits_no_more(uint64_t flow) {
  auto of = flows_.find(flow);
  LEAT_CHECK(of != flows_.end() && of->second.waiting > 0);
  if (--of->second.waiting == 0) --waiting_flows_;
  if (waiting_flows_ == 0) {
    flows_.clear();
    now_ = 0;
  } else if (flows_.size() > 2 * waiting_flows_ + 64) {
    std::erase_if(flows_, [this](const auto& other) {
      return other.second.waiting == 0 && other.second.end <= now_;
    });
  }
}

}  // namespace leat
