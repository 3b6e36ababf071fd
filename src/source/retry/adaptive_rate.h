// SPDX-License-Identifier: Apache-2.0
// AdaptiveRate: the request rate that a store accepts, learned from its throttling. There is no
// limit until the store throttles. Then the limit is what it accepted in the last second, and grows
// until the store throttles again. Not thread-safe; time never goes back (an earlier one counts as
// the last).
#pragma once

#include <array>
#include <cstdint>

#include "runtime/context.h"

namespace leat {

class AdaptiveRate {
 public:
  // Sets whether requests are in flight or queued from `now` on. Idle time does not count into the
  // rate.
  void set_demand(Clock::time_point now, bool demand);
  // Records a successful response and its duration.
  void accepted(Clock::time_point now, Clock::duration took);
  void throttled(Clock::time_point now);

  // Requests per second; zero: no limit.
  double limit(Clock::time_point now);

 private:
  // The last second, in slots of 50 ms.
  static constexpr int64_t kSlots = 20;
  static constexpr Clock::duration kSlotTime = std::chrono::milliseconds(50);
  struct Slot {
    int64_t number = -1;
    unsigned accepted = 0;
    unsigned throttled = 0;
    Clock::duration demand{};
  };

  Slot& slot(int64_t number);
  void advance(Clock::time_point now);
  void cut(double accepted, double throttled, double seconds);
  void grow(Clock::time_point now);

  std::array<Slot, kSlots> slots_;
  Clock::time_point last_ = Clock::time_point::min();
  bool demand_ = false;
  double took_seconds_ = 0;  // smoothed duration of accepted requests
  double limit_ = 0;
  double half_ = 0;
  Clock::time_point throttled_at_, grown_at_, halved_at_;
};

}  // namespace leat
