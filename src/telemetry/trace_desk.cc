// SPDX-License-Identifier: Apache-2.0
#include "telemetry/trace_desk.h"

namespace leat {

bool TraceDesk::wants(std::string_view path) {
  if (!watching()) return false;
  std::lock_guard lock(mutex_);
  bool any_open = false, wanted = false;
  for (const auto& [id, watch] : watches_) {
    any_open |= watch.open();
    wanted |= watch.open() && watch.path == path;
  }
  watching_ = any_open;
  return wanted;
}

uint64_t TraceDesk::watch(std::string path) {
  std::lock_guard lock(mutex_);
  std::erase_if(watches_, [now = std::chrono::steady_clock::now()](const auto& entry) {
    return entry.second.until + kWatchedFor < now;  // expired: its reader has stopped
  });
  if (watches_.size() == kWatchesMax) watches_.erase(watches_.begin());
  const uint64_t id = next_++;
  watches_[id] = {std::move(path), std::chrono::steady_clock::now() + kWatchedFor, {}};
  watching_ = true;
  return id;
}

void TraceDesk::add(std::string_view path, const TracedRequest& request) {
  std::lock_guard lock(mutex_);
  for (auto& [id, watch] : watches_) {
    if (watch.path == path && watch.open()) watch.requests.push_back(request);
  }
}

std::optional<std::vector<TracedRequest>> TraceDesk::requests(uint64_t watch) const {
  std::lock_guard lock(mutex_);
  auto found = watches_.find(watch);
  if (found == watches_.end()) return std::nullopt;
  return found->second.requests;
}

bool TraceDesk::end(uint64_t watch) {
  std::lock_guard lock(mutex_);
  const bool known = watches_.erase(watch) > 0;
  watching_ = !watches_.empty();
  return known;
}

TraceDesk& trace_desk() {
  static TraceDesk instance;
  return instance;
}

std::shared_ptr<Trace> trace_of_shared_work() {
  return std::make_shared<Trace>(trace_desk().watching());
}

}  // namespace leat
