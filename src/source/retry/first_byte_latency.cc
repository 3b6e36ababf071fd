// SPDX-License-Identifier: Apache-2.0
#include "source/retry/first_byte_latency.h"

#include <algorithm>
#include <cmath>

namespace leat {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr double kTimed = 0.99;  // the percentile that timeouts come from
constexpr double kClassesPerOctave = 4;
constexpr double kTimeoutFactor = 4;
constexpr Clock::duration kComputeEvery = std::chrono::milliseconds(100);
// Fewer timeouts do not describe the store as a whole.
constexpr uint32_t kTimeoutsMin = 8;

}  // namespace

FirstByteLatency::FirstByteLatency(Clock::duration timeout_min, Clock::duration timeout_max)
    : timeout_min_(timeout_min), timeout_max_(timeout_max) {}

FirstByteLatency::Slot& FirstByteLatency::slot_at(Clock::time_point now) {
  int64_t number = now.time_since_epoch() / kSlotTime;
  Slot& slot = slots_[static_cast<size_t>(number % kSlots)];
  if (slot.number != number) slot = Slot{.number = number};
  return slot;
}

void FirstByteLatency::responded(Clock::time_point now, Clock::duration first_byte) {
  double milliseconds = std::max(Milliseconds(first_byte).count(), 1.0);
  int at = static_cast<int>(kClassesPerOctave * std::log2(milliseconds));
  std::lock_guard lock(mutex_);
  Slot& slot = slot_at(now);
  ++slot.answers;
  timeout_run_ /= 2;
  ++slot.counts[static_cast<size_t>(std::clamp(at, 0, kClasses - 1))];
}

void FirstByteLatency::timed_out(Clock::time_point now) {
  std::lock_guard lock(mutex_);
  ++slot_at(now).timeouts;
  ++timeout_run_;
}

void FirstByteLatency::reset() {
  std::lock_guard lock(mutex_);
  slots_.fill(Slot{});
  timeout_run_ = kTimeoutsMin;
  computed_at_ = Clock::time_point::min();
}

Clock::duration FirstByteLatency::percentile_of(const Counts& counts, double share) {
  uint64_t total = 0;
  for (uint32_t count : counts) total += count;
  if (total == 0) return {};
  // As many samples may lie above.
  const auto beyond = static_cast<uint64_t>(static_cast<double>(total) * (1 - share));
  uint64_t above = 0;
  int at = kClasses - 1;
  for (; at > 0; --at) {
    above += counts[static_cast<size_t>(at)];
    if (above > beyond) break;
  }
  return std::chrono::duration_cast<Clock::duration>(
      Milliseconds(std::exp2((at + 1) / kClassesPerOctave)));
}

Clock::duration FirstByteLatency::percentile_since(int64_t first_number, double share) const {
  Counts sum{};
  for (const Slot& slot : slots_) {
    if (slot.number < first_number) continue;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += slot.counts[i];
  }
  return percentile_of(sum, share);
}

Clock::duration FirstByteLatency::compute(Clock::time_point now) {
  const int64_t number = now.time_since_epoch() / kSlotTime;
  uint64_t answers = 0, timeouts = 0;
  for (const Slot& slot : slots_) {
    if (slot.number < number - 1) continue;
    answers += slot.answers;
    timeouts += slot.timeouts;
  }
  if (timeouts >= kTimeoutsMin && timeouts * 3 > answers + timeouts) return timeout_max_;
  if (timeout_run_ >= kTimeoutsMin) return timeout_max_;
  Clock::duration slowest =
      std::max(percentile_since(number - kSlots + 1, kTimed), percentile_since(number - 1, kTimed));
  auto timeout =
      std::chrono::duration_cast<Clock::duration>(kTimeoutFactor * Milliseconds(slowest));
  return std::clamp(timeout, timeout_min_, timeout_max_);
}

Clock::duration FirstByteLatency::timeout(Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (computed_at_ == Clock::time_point::min() || now - computed_at_ >= kComputeEvery) {
    computed_ = compute(now);
    computed_at_ = now;
  }
  return computed_;
}

Clock::duration FirstByteLatency::percentile(Clock::time_point now, double share) {
  std::lock_guard lock(mutex_);
  return percentile_since(now.time_since_epoch() / kSlotTime - kSlots + 1, share);
}

}  // namespace leat
