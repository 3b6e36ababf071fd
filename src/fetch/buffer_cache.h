// SPDX-License-Identifier: Apache-2.0
// BufferCache: the memory budget of a fetcher, and the eviction order of fetched ranges. A range
// counts with all of its memory (held_bytes()), since small ones take a multiple of their size.
// Rules of eviction:
// 1. Ranges that were read completely are evicted first, then the oldest.
// 2. Few of those that the page store also has are kept, even if there is room. A second reader
// mostly finds them in the kernel's page cache. Their buffers serve the next ranges, which costs
// less than new memory.
// 3. A stored range that was not read completely is evicted at once if only a load wanted it, else
// when its reader had time to come.
// 4. A range in flight, or being written to the page store, cannot be evicted.
//
// Thread-safe, one leaf lock. Evicted flights are returned, not removed: the caller removes them
// from the table without this lock.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <vector>

#include "base/units.h"
#include "fetch/flight.h"

namespace leat {

class BufferCache {
 public:
  using Evicted = std::vector<FlightPtr>;
  struct Reservation {
    bool granted;
    Evicted evicted;
  };

  // Four of the largest ranges.
  static constexpr uint64_t kReadBytesMax = 4 * (8 * kMiB + kFlightBytes);

  // `unread_ttl`: a range's reader comes within this time, if it is alive.
  BufferCache(uint64_t bytes_max, Clock::duration unread_ttl,
              std::function<Clock::time_point()> now);

  // Counts in held_bytes(). For a demand read: always granted, even beyond the budget.
  Evicted reserve(uint64_t bytes);
  // For prefetch: within the budget only. Does not evict young unread ranges that the page store
  // lacks. Otherwise streams that are together larger than the budget would evict each other's
  // bytes and fetch everything twice.
  Reservation try_reserve(uint64_t bytes);
  // Releases reserved bytes that are not used.
  void release(uint64_t bytes);

  // The flight is complete and the page store has answered: it may be evicted from now on.
  Evicted on_stored(const FlightPtr& flight, bool on_disk);
  // Evicts stored ranges that are unread and no longer young.
  Evicted evict_unread();
  // Whether evict_unread() has, or will have, something to evict.
  bool any_to_evict() const;
  // Every byte of the range was delivered.
  void on_fully_read(const FlightPtr& flight);
  // Evicts this range; returns false if it cannot be evicted or already is.
  bool evict(const FlightPtr& flight);

  uint64_t bytes() const;

 private:
  using Flights = std::list<FlightPtr>;

  Evicted trim_locked();
  FlightPtr pop_locked(Flights& from);
  void remove_locked(Flight& flight);
  bool young_locked(const Flight& unread) const;
  // Returns the unread list with the older first entry.
  Flights& older_unread_locked();
  // Returns the list from which prefetch may evict next; null: none.
  Flights* cheapest_locked();

  const uint64_t bytes_max_;
  const Clock::duration unread_ttl_;
  const std::function<Clock::time_point()> now_;
  mutable std::mutex mutex_;
  uint64_t in_flight_bytes_ = 0;
  uint64_t cached_bytes_ = 0;
  uint64_t read_bytes_ = 0;  // of recent_bytes_, those of read_
  Flights read_;             // oldest first, in all three lists
  Flights unread_;           // the page store lacks these
  Flights unread_stored_;
};

}  // namespace leat
