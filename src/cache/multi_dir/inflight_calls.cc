// SPDX-License-Identifier: Apache-2.0
#include "cache/multi_dir/inflight_calls.h"

#include <algorithm>

namespace leat {
namespace {

constexpr int kTries = 16;  // attempts to find a free slot

}  // namespace

InflightCalls::Slot InflightCalls::begin(Clock::time_point now) {
  const Clock::rep since = now.time_since_epoch().count();
  // Set before the count, or a check in between would see a long silence.
  if (in_flight_.load() == 0) last_ended_.store(since);
  in_flight_.fetch_add(1);
  for (int i = 0; i < kTries; ++i) {
    const Slot slot = next_.fetch_add(1, std::memory_order_relaxed) % kSlots;
    Clock::rep free = 0;
    if (started_[slot].compare_exchange_strong(free, since, std::memory_order_relaxed)) return slot;
  }
  return kNone;
}

void InflightCalls::end(Slot slot, Clock::time_point now) {
  if (slot != kNone) started_[slot].store(0, std::memory_order_relaxed);
  last_ended_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  in_flight_.fetch_sub(1);
}

Clock::duration InflightCalls::stalled_for(Clock::time_point now) const {
  if (!any()) return {};
  return now.time_since_epoch() - Clock::duration(last_ended_.load(std::memory_order_relaxed));
}

Clock::duration InflightCalls::oldest(Clock::time_point now) const {
  Clock::duration oldest{};
  for (const std::atomic<Clock::rep>& started : started_) {
    const Clock::rep since = started.load(std::memory_order_relaxed);
    if (since != 0) oldest = std::max(oldest, now.time_since_epoch() - Clock::duration(since));
  }
  return oldest;
}

}  // namespace leat
