// SPDX-License-Identifier: Apache-2.0
// OpenConnections: the connections of a server, and which of them may give their places to others.
// Thread-safe. Private to this room.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "http/connection.h"

namespace leat {

class OpenConnections {
 public:
  using Ptr = std::shared_ptr<Connection>;

  // So long a client has asked nothing before its place may be wanted for another one.
  static constexpr Clock::duration kIdleMin = std::chrono::seconds(1);

  void add(Ptr connection);
  // Whether it was the last one after close_door().
  bool remove(const Ptr& connection);
  // Nobody comes any more. Whether nobody is there.
  bool close_door();
  std::vector<Ptr> all() const;

  // Ends up to `count` of those that wait for a request for at least kIdleMin, who waits longest
  // first. Where there was none it does not look again for a tenth of that.
  void end_idlest(size_t count);

 private:
  mutable std::mutex mutex_;  // leaf
  bool door_open_ = true;
  std::set<Ptr> connections_;
  Clock::time_point next_look_{};
};

}  // namespace leat
