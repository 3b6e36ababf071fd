// SPDX-License-Identifier: Apache-2.0
// BandwidthLine: a rate limiter that schedules transfers one after the other, as over a line of
// some speed. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

class BandwidthLine {
 public:
  // When a transfer begins, and when all of it has passed.
  struct Turn {
    Clock::time_point begins, ends;
  };

  // Bytes a second; 0: no limit.
  explicit BandwidthLine(uint64_t speed) : speed_(speed) {}

  bool limited() const { return speed_ != 0; }
  // Reserves the next turn for the caller.
  Turn book(uint64_t bytes);
  // Returns reserved bytes that were not transferred.
  void give_back(uint64_t bytes);
  // Reserves `bytes`, and waits until the transfers before have passed.
  Task<Result<>> wait_for_turn(Context context, uint64_t bytes);

 private:
  Clock::duration time_of(uint64_t bytes) const;

  const uint64_t speed_;
  std::mutex mutex_;          // leaf
  Clock::time_point free_{};  // end of the last reservation
};

}  // namespace leat
