// SPDX-License-Identifier: Apache-2.0
// ConcurrencyLimit: the concurrency limit of a store. It starts at the maximum, shrinks while
// first-byte latency keeps rising, and widens when it does not. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/context.h"

namespace leat {

class ConcurrencyLimit {
 public:
  ConcurrencyLimit(unsigned limit_min, unsigned limit_max);

  void responded(Clock::time_point now, Clock::duration first_byte);
  unsigned limit(Clock::time_point now);

 private:
  // The lowest smoothed first byte of each of the last 60 seconds.
  static constexpr int64_t kRemembered = 60;

  void end_second(int64_t second);
  double lowest(int64_t second) const;

  const unsigned min_, max_;
  unsigned limit_;
  int64_t second_ = -1;  // the current one, since the clock's epoch
  double sum_ = 0;       // of its first-byte latencies, in seconds
  uint64_t count_ = 0;
  double smoothed_ = 0;  // zero: no sample yet
  struct Past {
    int64_t second = -1;
    double smoothed = 0;
  };
  std::array<Past, kRemembered> past_;
};

}  // namespace leat
