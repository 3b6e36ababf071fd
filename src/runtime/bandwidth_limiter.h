// SPDX-License-Identifier: Apache-2.0
// BandwidthLimiter: a rate limiter by virtual scheduling: transfers follow one another, as over a
// line of that speed. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

class BandwidthLimiter {
 public:
  // When a transfer begins, and when all of it has passed.
  struct Reservation {
    Clock::time_point begins, ends;
  };

  // Bytes a second; 0: no limit.
  explicit BandwidthLimiter(uint64_t bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  bool limited() const { return bytes_per_second_ != 0; }
  // Reserves the time of the next transfer.
  Reservation reserve(uint64_t bytes);
  // Returns reserved bytes that were not transferred.
  void return_unused(uint64_t bytes);
  // Reserves `bytes`, and waits until the transfers before have passed.
  Task<Result<>> acquire(Context context, uint64_t bytes);

 private:
  Clock::duration time_of(uint64_t bytes) const;

  const uint64_t bytes_per_second_;
  std::mutex mutex_;          // leaf
  Clock::time_point free_{};  // end of the last reservation
};

}  // namespace leat
