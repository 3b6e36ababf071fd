// SPDX-License-Identifier: Apache-2.0
#include "telemetry/trace_registry.h"

namespace leat {

bool TraceRegistry::is_subscribed(std::string_view path) {
  if (!any_subscribed()) return false;
  std::lock_guard lock(mutex_);
  bool any_active = false, wanted = false;
  for (const auto& [id, subscription] : subscriptions_) {
    any_active |= subscription.active();
    wanted |= subscription.active() && subscription.path == path;
  }
  any_subscribed_ = any_active;
  return wanted;
}

uint64_t TraceRegistry::subscribe(std::string path) {
  std::lock_guard lock(mutex_);
  std::erase_if(subscriptions_, [now = std::chrono::steady_clock::now()](const auto& entry) {
    return entry.second.until + kSubscriptionTtl < now;  // expired: its reader has stopped
  });
  if (subscriptions_.size() == kSubscriptionsMax) subscriptions_.erase(subscriptions_.begin());
  const uint64_t id = next_++;
  subscriptions_[id] = {std::move(path), std::chrono::steady_clock::now() + kSubscriptionTtl, {}};
  any_subscribed_ = true;
  return id;
}

void TraceRegistry::record(std::string_view path, const TracedRequest& request) {
  std::lock_guard lock(mutex_);
  for (auto& [id, subscription] : subscriptions_) {
    if (subscription.path == path && subscription.active())
      subscription.requests.push_back(request);
  }
}

std::optional<std::vector<TracedRequest>> TraceRegistry::requests(uint64_t subscription) const {
  std::lock_guard lock(mutex_);
  auto found = subscriptions_.find(subscription);
  if (found == subscriptions_.end()) return std::nullopt;
  return found->second.requests;
}

bool TraceRegistry::unsubscribe(uint64_t subscription) {
  std::lock_guard lock(mutex_);
  const bool known = subscriptions_.erase(subscription) > 0;
  any_subscribed_ = !subscriptions_.empty();
  return known;
}

TraceRegistry& trace_registry() {
  static TraceRegistry instance;
  return instance;
}

std::shared_ptr<Trace> trace_of_shared_work() {
  return std::make_shared<Trace>(trace_registry().any_subscribed());
}

}  // namespace leat
