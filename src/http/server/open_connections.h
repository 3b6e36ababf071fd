// SPDX-License-Identifier: Apache-2.0
// OpenConnections: the connections of a server, their number per remote address, and which of them
// may be evicted. Thread-safe. Private to this module.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "http/server/connection.h"

namespace leat {

class OpenConnections {
 public:
  using Ptr = std::shared_ptr<Connection>;
  using Group = decltype(RemoteAddress::group);

  void add(Ptr connection);
  // Removes a connection. Returns whether it was the last one after stop_accepting().
  bool remove(const Ptr& connection);
  // No connection is added any more. Returns whether none is open.
  bool stop_accepting();
  std::vector<Ptr> all() const;
  // How many connections the address has. 0 for a Unix socket.
  size_t count(const RemoteAddress& address) const;

  // Evicts up to `count` connections, the one that is evictable for the longest first. Returns how
  // many. If none is evictable, it scans again only after kRescanInterval.
  size_t evict(size_t count);
  // Evicts one connection of this address in the same way.
  bool evict_one_of(const RemoteAddress& address);

 private:
  static constexpr Clock::duration kRescanInterval = std::chrono::milliseconds(20);
  // Minimum idle time before eviction: a client that has just connected, or sends one request after
  // another, keeps its connection. The first bounds eviction for clients with other addresses, the
  // second for those with the same address.
  static constexpr Clock::duration kIdleMin = std::chrono::milliseconds(100);
  static constexpr Clock::duration kOwnIdleMin = std::chrono::milliseconds(10);

  struct Candidate {
    Clock::time_point since;
    Ptr connection;
  };

  std::vector<Candidate> evictable_locked(Clock::time_point until) const;
  static size_t evict_oldest(std::vector<Candidate> candidates, size_t count);

  mutable std::mutex mutex_;  // leaf
  bool accepting_ = true;
  std::set<Ptr> connections_;
  std::map<Group, size_t> counts_;
  Clock::time_point next_scan_{};
};

}  // namespace leat
