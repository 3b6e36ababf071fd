// SPDX-License-Identifier: Apache-2.0
// HedgePlan: when a read that is not answered yet is asked of a second worker as well, and how
// often at most. Learns from the reads themselves: of each size (to the power of two) in what time
// 19 of 20 are answered. Thread-safe; estimates, so what threads lose to each other does not
// matter.
#pragma once

#include <array>
#include <atomic>
#include <optional>

#include "runtime/context.h"

namespace leat {

struct HedgePlanOptions {
  // Of the reads that may be hedged at most one in so many is; 0: none.
  uint32_t reads_per_hedge = 20;
  // Hedges that may come at once, saved up.
  uint32_t saved_max = 10;
  // Before so many reads of a size are known nothing is hedged.
  uint32_t reads_min = 100;
  Clock::duration delay_min = std::chrono::milliseconds(2);
};

class HedgePlan {
 public:
  explicit HedgePlan(HedgePlanOptions options = {}) : options_(options) {}

  // How long to wait for an answer before somebody else is asked; nothing: nobody is.
  std::optional<Clock::duration> delay(uint64_t bytes) const;
  // A read that was answered, or given up since another one was faster.
  void note(uint64_t bytes, Clock::duration took);
  // Whether there may be another one now.
  bool take();

 private:
  struct Size {
    std::atomic<uint32_t> reads = 0;
    std::atomic<float> seconds = 0;  // in which 19 of 20 are answered
  };
  static size_t size_of(uint64_t bytes);

  const HedgePlanOptions options_;
  std::array<Size, 32> sizes_;
  std::atomic<uint32_t> saved_ = 0;  // in reads
};

}  // namespace leat
