// SPDX-License-Identifier: Apache-2.0
// RecentRanges: the memory budget of a fetcher, and the order in which fetched ranges leave memory.
// Ranges that were read to their end leave first, then the oldest. Of those that the page store has
// as well few are kept, whatever room there is: who reads them again mostly finds them in the
// kernel's page cache, and their buffers serve the next ranges, which costs less than memory that
// is new to the process. What is under way or being written to the page store cannot leave.
// Thread-safe, one leaf lock.
//
// Evicted flights are returned, not removed: the caller takes them out of the table without this
// lock.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <vector>

#include "fetch/flight.h"

namespace leat {

class RecentRanges {
 public:
  using Evicted = std::vector<FlightPtr>;
  struct Reservation {
    bool granted;
    Evicted evicted;
  };

  static constexpr uint64_t kReadBytesKept = 32 << 20;

  RecentRanges(uint64_t bytes_max, std::function<Clock::time_point()> now);

  // For a demand read: granted always, also past the budget.
  Evicted reserve(uint64_t bytes);
  // For look-ahead: within the budget only. Ranges that nobody has read yet and that the page store
  // does not have are not pushed out by it while they are young, since streams together larger than
  // the budget would otherwise throw out each other's bytes and fetch everything twice.
  Reservation try_reserve(uint64_t bytes);
  // Gives back what was reserved and is not used.
  void release(uint64_t bytes);

  // The flight has landed and the page store has answered: it may leave memory from now on.
  Evicted settle(const FlightPtr& flight, bool on_disk);
  // Every byte of it was handed out.
  void read_through(const FlightPtr& flight);
  // Takes this one out of memory; false when it cannot leave or has left.
  bool evict(const FlightPtr& flight);

  uint64_t bytes() const;

 private:
  Evicted trim_locked();
  FlightPtr pop_locked(std::list<FlightPtr>& from);
  bool cheap_locked(const Flight& unread) const;

  const uint64_t bytes_max_;
  const std::function<Clock::time_point()> now_;
  mutable std::mutex mutex_;
  uint64_t under_way_bytes_ = 0;
  uint64_t recent_bytes_ = 0;
  uint64_t read_bytes_ = 0;    // of recent_bytes_, those of read_
  std::list<FlightPtr> read_;  // oldest first, both
  std::list<FlightPtr> unread_;
};

}  // namespace leat
