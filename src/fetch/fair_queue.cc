// SPDX-License-Identifier: Apache-2.0
#include "fetch/fair_queue.h"

#include <algorithm>

#include "base/check.h"

namespace leat {

FairQueue::Position FairQueue::enqueue(uint64_t flow, uint64_t cost, bool low_priority) {
  Flow& of = flows_[flow];
  const uint64_t start = std::max(now_, of.end);
  of.end = start + cost;
  if (of.waiting++ == 0) ++waiting_flows_;
  return {.low_priority = low_priority, .end = of.end, .arrived = ++arrivals_, .start = start};
}

// The virtual time advances as if all waiting flows were served at once, each a part of `cost`. So
// a continuous supply of new flows does not delay an old one for ever.
void FairQueue::dequeue(const Position& position, uint64_t flow, uint64_t cost) {
  now_ = std::max(now_, position.start) + cost / waiting_flows_;
  end_wait(flow);
}

void FairQueue::cancel(const Position& position, uint64_t flow) {
  auto of = flows_.find(flow);
  LEAT_CHECK(of != flows_.end());
  if (of->second.end == position.end) of->second.end = position.start;
  end_wait(flow);
}

void FairQueue::end_wait(uint64_t flow) {
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
