// SPDX-License-Identifier: Apache-2.0
#include "http/open_connections.h"

#include <algorithm>

#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter idle_ended("leat_http_idle_ended_total",
                   "Connections without a request that ended because others wanted their places");

}  // namespace

void OpenConnections::add(Ptr connection) {
  std::lock_guard lock(mutex_);
  connections_.insert(std::move(connection));
}

bool OpenConnections::remove(const Ptr& connection) {
  std::lock_guard lock(mutex_);
  connections_.erase(connection);
  return !door_open_ && connections_.empty();
}

bool OpenConnections::close_door() {
  std::lock_guard lock(mutex_);
  door_open_ = false;
  return connections_.empty();
}

std::vector<OpenConnections::Ptr> OpenConnections::all() const {
  std::lock_guard lock(mutex_);
  return {connections_.begin(), connections_.end()};
}

void OpenConnections::end_idlest(size_t count) {
  using Idle = std::pair<Clock::time_point, Ptr>;
  const Clock::time_point now = Clock::now();
  std::vector<Idle> idle;
  {
    std::lock_guard lock(mutex_);
    if (now < next_look_) return;
    for (const Ptr& connection : connections_) {
      const auto since = connection->waits_since();
      if (since && now - *since >= kIdleMin) idle.emplace_back(*since, connection);
    }
    if (idle.empty()) next_look_ = now + kIdleMin / 10;
  }
  if (idle.size() > count) {
    std::ranges::nth_element(idle, idle.begin() + ptrdiff_t(count), {}, &Idle::first);
    idle.resize(count);
  }
  for (const auto& [_, connection] : idle) connection->wake();
  idle_ended.add(idle.size());
}

}  // namespace leat
