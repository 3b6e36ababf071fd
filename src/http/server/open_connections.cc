// SPDX-License-Identifier: Apache-2.0
#include "http/server/open_connections.h"

#include <algorithm>

#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter evicted_total("leat_http_evicted_total",
                      "Idle or slow connections closed to make room for new ones");

}  // namespace

void OpenConnections::add(Ptr connection) {
  const RemoteAddress& address = connection->address();
  std::lock_guard lock(mutex_);
  if (address.is_ip) ++counts_[address.group];
  connections_.insert(std::move(connection));
}

bool OpenConnections::remove(const Ptr& connection) {
  const RemoteAddress& address = connection->address();
  std::lock_guard lock(mutex_);
  const bool was_there = connections_.erase(connection) > 0;
  if (was_there && address.is_ip) {
    const auto counted = counts_.find(address.group);
    if (--counted->second == 0) counts_.erase(counted);
  }
  return !accepting_ && connections_.empty();
}

bool OpenConnections::stop_accepting() {
  std::lock_guard lock(mutex_);
  accepting_ = false;
  return connections_.empty();
}

std::vector<OpenConnections::Ptr> OpenConnections::all() const {
  std::lock_guard lock(mutex_);
  return {connections_.begin(), connections_.end()};
}

size_t OpenConnections::count(const RemoteAddress& address) const {
  std::lock_guard lock(mutex_);
  const auto counted = counts_.find(address.group);
  return address.is_ip && counted != counts_.end() ? counted->second : 0;
}

std::vector<OpenConnections::Candidate> OpenConnections::evictable_locked(
    Clock::time_point until) const {
  std::vector<Candidate> candidates;
  for (const Ptr& connection : connections_) {
    const auto since = connection->evictable_since();
    if (since && *since <= until) candidates.push_back({*since, connection});
  }
  return candidates;
}

size_t OpenConnections::evict_oldest(std::vector<Candidate> candidates, size_t count) {
  if (candidates.size() > count) {
    std::ranges::nth_element(candidates, candidates.begin() + ptrdiff_t(count), {},
                             &Candidate::since);
    candidates.resize(count);
  }
  size_t evicted = 0;
  for (const Candidate& candidate : candidates) evicted += candidate.connection->evict() ? 1 : 0;
  evicted_total.add(evicted);
  return evicted;
}

size_t OpenConnections::evict(size_t count) {
  std::vector<Candidate> candidates;
  {
    const Clock::time_point now = Clock::now();
    std::lock_guard lock(mutex_);
    if (now < next_scan_) return 0;
    candidates = evictable_locked(now - kIdleMin);
    if (candidates.empty()) next_scan_ = now + kRescanInterval;
  }
  return evict_oldest(std::move(candidates), count);
}

bool OpenConnections::evict_one_of(const RemoteAddress& address) {
  std::vector<Candidate> candidates;
  {
    std::lock_guard lock(mutex_);
    candidates = evictable_locked(Clock::now() - kOwnIdleMin);
  }
  std::erase_if(candidates, [&](const Candidate& candidate) {
    return candidate.connection->address().group != address.group;
  });
  return evict_oldest(std::move(candidates), 1) > 0;
}

}  // namespace leat
