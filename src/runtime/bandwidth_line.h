// SPDX-License-Identifier: Apache-2.0
// BandwidthLine: pieces of work as they would go over a line of some speed, one after the other.
// Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

class BandwidthLine {
 public:
  // When a piece goes onto the line, and when all of it is through.
  struct Turn {
    Clock::time_point begins, ends;
  };

  // Bytes a second; 0: no limit.
  explicit BandwidthLine(uint64_t speed) : speed_(speed) {}

  bool limited() const { return speed_ != 0; }
  // The next turn, which is the caller's from now on.
  Turn book(uint64_t bytes);
  // Of what was booked and did not go over the line.
  void give_back(uint64_t bytes);
  // Until the pieces before this one are through.
  Task<Result<>> wait_for_turn(Context context, uint64_t bytes);

 private:
  Clock::duration time_of(uint64_t bytes) const;

  const uint64_t speed_;
  std::mutex mutex_;          // leaf
  Clock::time_point free_{};  // when what was booked is through
};

}  // namespace leat
