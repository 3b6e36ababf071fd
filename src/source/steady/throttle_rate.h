// SPDX-License-Identifier: Apache-2.0
// ThrottleRate: the requests a second that a store takes, learnt from its asking for fewer. There
// is no limit until it does; then the limit is what it accepted in the last second, and grows until
// it asks again. Not thread-safe; times never go back (an earlier one counts as the last).
#pragma once

#include <array>
#include <cstdint>

#include "runtime/context.h"

namespace leat {

class ThrottleRate {
 public:
  // From `now` on something is under way or waits for its turn, or not. Seconds in which nothing
  // was wanted do not count into the rate.
  void wanting(Clock::time_point now, bool wanted);
  // An answer, and how long it took.
  void accepted(Clock::time_point now, Clock::duration took);
  void throttled(Clock::time_point now);

  // Requests a second; zero: no limit.
  double limit(Clock::time_point now);

 private:
  // The last second, in slots of 50 ms.
  static constexpr int64_t kSlots = 20;
  static constexpr Clock::duration kSlotTime = std::chrono::milliseconds(50);
  struct Slot {
    int64_t number = -1;
    unsigned accepted = 0;
    unsigned throttled = 0;
    Clock::duration wanted{};
  };

  Slot& slot(int64_t number);
  void advance(Clock::time_point now);
  void cut(double accepted, double throttled, double seconds);
  void grow(Clock::time_point now);

  std::array<Slot, kSlots> slots_;
  Clock::time_point last_ = Clock::time_point::min();
  bool wanted_ = false;
  double took_seconds_ = 0;  // smoothed, of what was accepted
  double limit_ = 0;
  double half_ = 0;
  Clock::time_point throttled_at_, grown_at_, halved_at_;
};

}  // namespace leat
