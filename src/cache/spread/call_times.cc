// SPDX-License-Identifier: Apache-2.0
#include "cache/spread/call_times.h"

#include <algorithm>

namespace leat {
namespace {

constexpr int kTries = 16;  // attempts to find a free slot

}  // namespace

CallTimes::Place CallTimes::began(Clock::time_point now) {
  const Clock::rep since = now.time_since_epoch().count();
  // Set before the count, or a check in between would see a long silence.
  if (under_way_.load() == 0) last_ended_.store(since);
  under_way_.fetch_add(1);
  for (int i = 0; i < kTries; ++i) {
    const Place place = next_.fetch_add(1, std::memory_order_relaxed) % kPlaces;
    Clock::rep free = 0;
    if (began_[place].compare_exchange_strong(free, since, std::memory_order_relaxed)) return place;
  }
  return kNone;
}

void CallTimes::ended(Place place, Clock::time_point now) {
  if (place != kNone) began_[place].store(0, std::memory_order_relaxed);
  last_ended_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  under_way_.fetch_sub(1);
}

Clock::duration CallTimes::silence(Clock::time_point now) const {
  if (!any()) return {};
  return now.time_since_epoch() - Clock::duration(last_ended_.load(std::memory_order_relaxed));
}

Clock::duration CallTimes::oldest(Clock::time_point now) const {
  Clock::duration oldest{};
  for (const std::atomic<Clock::rep>& began : began_) {
    const Clock::rep since = began.load(std::memory_order_relaxed);
    if (since != 0) oldest = std::max(oldest, now.time_since_epoch() - Clock::duration(since));
  }
  return oldest;
}

}  // namespace leat
