// SPDX-License-Identifier: Apache-2.0
// HedgePlan: when to send a second request for a late read, and how often at most. Estimates the
// 95th percentile latency for each size class (power of two) from the reads themselves.
// Thread-safe; concurrent updates may be lost, which is harmless for estimates.
#pragma once

#include <array>
#include <atomic>
#include <optional>

#include "runtime/context.h"

namespace leat {

struct HedgePlanOptions {
  // At most one hedge in this many reads; 0 disables hedging.
  uint32_t reads_per_hedge = 20;
  // Hedges that may accumulate for a burst.
  uint32_t burst_max = 10;
  // No hedging before this many reads of a size class.
  uint32_t reads_min = 100;
  Clock::duration delay_min = std::chrono::milliseconds(2);
};

class HedgePlan {
 public:
  explicit HedgePlan(HedgePlanOptions options = {}) : options_(options) {}

  // Returns the delay before the second request; nothing: no hedge.
  std::optional<Clock::duration> delay(uint64_t bytes) const;
  // Records a read that was answered, or abandoned for a faster one.
  void record(uint64_t bytes, Clock::duration took);
  // Takes one hedge from the budget; false if none is left.
  bool try_take();

 private:
  struct Size {
    std::atomic<uint32_t> reads = 0;
    std::atomic<float> seconds = 0;  // 95th percentile
  };
  static size_t size_of(uint64_t bytes);

  const HedgePlanOptions options_;
  std::array<Size, 32> sizes_;
  std::atomic<uint32_t> budget_ = 0;  // budget, in reads
};

}  // namespace leat
