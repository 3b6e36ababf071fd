// SPDX-License-Identifier: Apache-2.0
#include "source/retry/adaptive_rate.h"

#include <algorithm>
#include <cmath>

namespace leat {
namespace {

using Seconds = std::chrono::duration<double>;

// Growth of 5 % per second: a store that throttles at its limit is found again within a second or
// two, and rejected requests stay near 3 %.
constexpr double kGrowth = 1.05;
// After this quiet time the limit is far from its learned value. Recovery from a bad period at 5 %
// would take minutes.
constexpr Clock::duration kQuiet = std::chrono::seconds(5);
constexpr double kQuietGrowth = 1.5;
constexpr Clock::duration kGrowEvery = std::chrono::milliseconds(20);
// No client reaches this rate: the limit is dropped.
constexpr double kNoLimit = 100'000;
constexpr double kLimitMin = 1;
// A second with almost no accepted requests is a poor measure; the limit never falls below this
// share of the attempted rate.
constexpr double kCutMost = 0.1;
// Fewer responses than this in a second are no measure: they set no limit, and at most halve an
// existing one, once a second.
constexpr double kMeasureMin = 10;
constexpr Clock::duration kHalveEvery = std::chrono::seconds(1);
// A throttled response arrives sooner than a success would. So a burst begins with a period, as
// long as a response takes, that has rejections only. That period does not count, and the measured
// time after it must have this length. With a 50 ms measure a store of 200/s looked like one of
// 20/s, and needed 20 s to recover.
constexpr double kMeasureSecondsMin = 0.25;
constexpr double kWholeMeasureSeconds = 0.95;
constexpr double kNewShare = 0.1;

}  // namespace

AdaptiveRate::Slot& AdaptiveRate::slot(int64_t number) {
  Slot& slot = slots_[static_cast<size_t>(number % kSlots)];
  if (slot.number != number) slot = Slot{.number = number};
  return slot;
}

// Adds the time since the last call to the slots that it lies in.
void AdaptiveRate::advance(Clock::time_point now) {
  if (last_ == Clock::time_point::min()) last_ = now;
  if (now <= last_) return;
  if (demand_) {
    Clock::time_point from = std::max(last_, now - kSlots * kSlotTime);
    while (from < now) {
      int64_t number = from.time_since_epoch() / kSlotTime;
      Clock::time_point end = std::min(now, Clock::time_point((number + 1) * kSlotTime));
      slot(number).demand += end - from;
      from = end;
    }
  }
  last_ = now;
}

void AdaptiveRate::set_demand(Clock::time_point now, bool demand) {
  advance(now);
  demand_ = demand;
}

void AdaptiveRate::accepted(Clock::time_point now, Clock::duration took) {
  advance(now);
  double seconds = Seconds(took).count();
  took_seconds_ =
      took_seconds_ == 0 ? seconds : took_seconds_ + kNewShare * (seconds - took_seconds_);
  ++slot(last_.time_since_epoch() / kSlotTime).accepted;
}

void AdaptiveRate::throttled(Clock::time_point now) {
  advance(now);
  grow(last_);
  const int64_t number = last_.time_since_epoch() / kSlotTime;
  ++slot(number).throttled;
  double accepted = 0, throttled = 0;
  Clock::duration demand{};
  for (const Slot& slot : slots_) {
    if (slot.number <= number - kSlots) continue;
    accepted += slot.accepted;
    throttled += slot.throttled;
    demand += slot.demand;
  }
  cut(accepted, throttled, Seconds(std::max(demand, kSlotTime)).count());
  throttled_at_ = grown_at_ = last_;
}

void AdaptiveRate::cut(double accepted, double throttled, double seconds) {
  if (seconds < kWholeMeasureSeconds) {
    seconds = std::max(seconds - took_seconds_, Seconds(kSlotTime).count());
    if (limit_ == 0 && (accepted == 0 || seconds < kMeasureSecondsMin)) return;
  }
  const double tried = accepted + throttled;
  double taken = accepted / seconds;
  if (tried >= kMeasureMin) {
    taken = std::max(taken, kCutMost * tried / seconds);
  } else {
    if (limit_ == 0) return;
    if (last_ - halved_at_ >= kHalveEvery) {
      halved_at_ = last_;
      half_ = limit_ / 2;
    }
    taken = std::max(taken, half_);
  }
  if (limit_ == 0 || taken < limit_) limit_ = std::max(taken, kLimitMin);
}

void AdaptiveRate::grow(Clock::time_point now) {
  if (limit_ == 0 || now - grown_at_ < kGrowEvery) return;
  Clock::time_point quiet = std::max(grown_at_, throttled_at_ + kQuiet);
  double slow = Seconds(std::min(now, quiet) - grown_at_).count();
  double fast = Seconds(std::max(now, quiet) - quiet).count();
  limit_ *= std::pow(kGrowth, slow) * std::pow(kQuietGrowth, fast);
  grown_at_ = now;
  if (!(limit_ < kNoLimit)) limit_ = 0;
}

double AdaptiveRate::limit(Clock::time_point now) {
  advance(now);
  grow(last_);
  return limit_;
}

}  // namespace leat
