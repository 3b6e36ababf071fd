// SPDX-License-Identifier: Apache-2.0
// CallTimes: since when the calls to a disk are under way, so that one that does not come back is
// seen, alone or among others that do. Thread-safe, without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/context.h"

namespace leat {

class CallTimes {
 public:
  // Where the start of a call is kept; kNone where all places near are taken. It counts then, but
  // not for oldest().
  using Place = size_t;
  static constexpr Place kPlaces = 256, kNone = kPlaces;

  explicit CallTimes(Clock::time_point now) : last_ended_(now.time_since_epoch().count()) {}

  Place began(Clock::time_point now);
  void ended(Place place, Clock::time_point now);

  bool any() const { return under_way_.load() > 0; }
  // For how long some were under way and none of them has ended; zero where none is.
  Clock::duration silence(Clock::time_point now) const;
  // For how long the oldest is under way.
  Clock::duration oldest(Clock::time_point now) const;

 private:
  std::atomic<int64_t> under_way_ = 0;
  std::atomic<Clock::rep> last_ended_;  // or began, where nothing was under way
  std::atomic<size_t> next_ = 0;
  std::array<std::atomic<Clock::rep>, kPlaces> began_ = {};  // 0: free
};

}  // namespace leat
