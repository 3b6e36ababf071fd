// SPDX-License-Identifier: Apache-2.0
// OpenConnections: the connections of a server, how many each remote address has, and which of
// them give their places to others. Thread-safe. Private to this room.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "http/connection.h"

namespace leat {

class OpenConnections {
 public:
  using Ptr = std::shared_ptr<Connection>;
  using Group = decltype(RemoteAddress::group);

  void add(Ptr connection);
  // Whether it was the last one after close_door().
  bool remove(const Ptr& connection);
  // Nobody comes any more. Whether nobody is there.
  bool close_door();
  std::vector<Ptr> all() const;
  // How many connections the address has. 0 for a Unix socket.
  size_t count(const RemoteAddress& address) const;

  // Evicts up to `count` connections, the one that is evictable for the longest first. Returns how
  // many. If none is evictable, it looks again only after kLookAgain.
  size_t evict(size_t count);
  // Evicts one connection of this address in the same way.
  bool evict_one_of(const RemoteAddress& address);

 private:
  static constexpr Clock::duration kLookAgain = std::chrono::milliseconds(20);
  // A client that has just come, or asks one thing after another, keeps its connection: it is idle
  // for so long before it loses it to a client from elsewhere, and to one from its own address.
  static constexpr Clock::duration kIdleMin = std::chrono::milliseconds(100);
  static constexpr Clock::duration kOwnIdleMin = std::chrono::milliseconds(10);

  struct Candidate {
    Clock::time_point since;
    Ptr connection;
  };

  std::vector<Candidate> evictable_locked(Clock::time_point until) const;
  static size_t evict_oldest(std::vector<Candidate> candidates, size_t count);

  mutable std::mutex mutex_;  // leaf
  bool door_open_ = true;
  std::set<Ptr> connections_;
  std::map<Group, size_t> counts_;
  Clock::time_point next_look_{};
};

}  // namespace leat
