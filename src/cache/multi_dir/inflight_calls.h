// SPDX-License-Identifier: Apache-2.0
// InflightCalls: start times of the disk calls in flight, so that a hanging call is detected alone
// or among others. Thread-safe, without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/context.h"

namespace leat {

class InflightCalls {
 public:
  // Slot for the start of a call; kNone if no free slot was found. Such a call counts, but not for
  // oldest().
  using Slot = size_t;
  static constexpr Slot kSlots = 256, kNone = kSlots;

  explicit InflightCalls(Clock::time_point now) : last_ended_(now.time_since_epoch().count()) {}

  Slot begin(Clock::time_point now);
  void end(Slot slot, Clock::time_point now);

  bool any() const { return in_flight_.load() > 0; }
  // Returns how long calls have been in flight without any of them ending; zero if none is in
  // flight.
  Clock::duration stalled_for(Clock::time_point now) const;
  // Returns the age of the oldest call in flight.
  Clock::duration oldest(Clock::time_point now) const;

 private:
  std::atomic<int64_t> in_flight_ = 0;
  std::atomic<Clock::rep> last_ended_;  // or the start of the first call, if none was in flight
  std::atomic<size_t> next_ = 0;
  std::array<std::atomic<Clock::rep>, kSlots> started_ = {};  // 0: free
};

}  // namespace leat
