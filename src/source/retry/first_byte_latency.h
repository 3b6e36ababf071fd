// SPDX-License-Identifier: Apache-2.0
// FirstByteLatency: the first-byte latencies of a store in the last three minutes. From them it
// derives how long an attempt may be silent before its connection counts as stalled. Uses 5 KiB at
// any load. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "runtime/context.h"

namespace leat {

class FirstByteLatency {
 public:
  // The limits of timeout(), which is `timeout_min` until a first sample.
  FirstByteLatency(Clock::duration timeout_min, Clock::duration timeout_max);

  void responded(Clock::time_point now, Clock::duration first_byte);
  void timed_out(Clock::time_point now);
  // Drops all samples after an outage, since they do not describe the store after it. timeout() is
  // `timeout_max` until responses have arrived.
  void reset();

  // Returns 4 × p99 of the last three minutes, or of the last 10 to 20 seconds if that is more: a
  // store that has just become slow is slow now. Returns `timeout_max` while more than a third of
  // the attempts of those seconds time out, or the last eight did: then the store is slow, not a
  // connection.
  Clock::duration timeout(Clock::time_point now);
  // Returns the upper edge of the bucket that holds the 99th percentile, up to 19 % above it; zero
  // without samples.
  Clock::duration p99(Clock::time_point now) { return percentile(now, 0.99); }
  Clock::duration median(Clock::time_point now) { return percentile(now, 0.5); }

 private:
  static constexpr int kSlots = 18;
  static constexpr Clock::duration kSlotTime = std::chrono::seconds(10);
  // Quarter octaves from 1 ms to 16 s.
  static constexpr int kClasses = 56;
  using Counts = std::array<uint32_t, kClasses>;
  struct Slot {
    int64_t number = -1;  // since the clock's epoch; a slot with another number is stale
    uint32_t answers = 0;
    uint32_t timeouts = 0;
    Counts counts{};
  };

  static Clock::duration percentile_of(const Counts& counts, double share);
  Clock::duration percentile(Clock::time_point now, double share);
  Slot& slot_at(Clock::time_point now);
  Clock::duration percentile_since(int64_t first_number, double share) const;
  Clock::duration compute(Clock::time_point now);

  const Clock::duration timeout_min_, timeout_max_;
  std::mutex mutex_;  // leaf
  std::array<Slot, kSlots> slots_;
  uint32_t timeout_run_ = 0;  // plus one for each timeout, halved by each response
  // Summing 1,000 counts would be the most expensive part of an attempt, so it runs once in 100 ms.
  Clock::time_point computed_at_ = Clock::time_point::min();
  Clock::duration computed_{};
};

}  // namespace leat
