// SPDX-License-Identifier: Apache-2.0
// RecentRanges: the memory budget of a fetcher, and the order in which fetched ranges leave memory.
// A range counts with all that it takes (held_bytes()), since small ones take a multiple of their
// size. Ranges that were read to their end leave first, then the oldest. Of those that the page
// store has as well few are kept, whatever room there is: who reads them again mostly finds them in
// the kernel's page cache, and their buffers serve the next ranges, which costs less than memory
// that is new to the process. Of those that it has and nobody has read to their end, those that
// only a load wanted leave at once, the others when their reader had time to come. What is under
// way or being written to the page store cannot leave. Thread-safe, one leaf lock.
//
// Evicted flights are returned, not removed: the caller takes them out of the table without this
// lock.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <vector>

#include "base/units.h"
#include "fetch/flight.h"

namespace leat {

class RecentRanges {
 public:
  using Evicted = std::vector<FlightPtr>;
  struct Reservation {
    bool granted;
    Evicted evicted;
  };

  // Four of the largest.
  static constexpr uint64_t kReadBytesKept = 4 * (8 * kMiB + kFlightBytes);

  // `unread_young`: within so long a range's reader comes, if it has one that is alive.
  RecentRanges(uint64_t bytes_max, Clock::duration unread_young,
               std::function<Clock::time_point()> now);

  // All in bytes that are held. For a demand read: granted always, also past the budget.
  Evicted reserve(uint64_t bytes);
  // For look-ahead: within the budget only. Ranges that nobody has read yet and that the page store
  // does not have are not pushed out by it while they are young, since streams together larger than
  // the budget would otherwise throw out each other's bytes and fetch everything twice.
  Reservation try_reserve(uint64_t bytes);
  // Gives back what was reserved and is not used.
  void release(uint64_t bytes);

  // The flight has landed and the page store has answered: it may leave memory from now on.
  Evicted settle(const FlightPtr& flight, bool on_disk);
  // Takes out what the page store has, too, and nobody has read although it is young no more.
  Evicted drop_unread();
  // Whether there is, or will be, something for it.
  bool any_to_drop() const;
  // Every byte of it was handed out.
  void read_through(const FlightPtr& flight);
  // Takes this one out of memory; false when it cannot leave or has left.
  bool evict(const FlightPtr& flight);

  uint64_t bytes() const;

 private:
  using Flights = std::list<FlightPtr>;

  Evicted trim_locked();
  FlightPtr pop_locked(Flights& from);
  void leave_locked(Flight& flight);
  bool young_locked(const Flight& unread) const;
  // Of the two lists of those that were not read, that whose first is the older one.
  Flights& older_unread_locked();
  // What look-ahead may push out next; null: nothing.
  Flights* cheapest_locked();

  const uint64_t bytes_max_;
  const Clock::duration unread_young_;
  const std::function<Clock::time_point()> now_;
  mutable std::mutex mutex_;
  uint64_t under_way_bytes_ = 0;
  uint64_t recent_bytes_ = 0;
  uint64_t read_bytes_ = 0;  // of recent_bytes_, those of read_
  Flights read_;             // oldest first, all three
  Flights unread_;           // the page store lacks these
  Flights unread_stored_;
};

}  // namespace leat
