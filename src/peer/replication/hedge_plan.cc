// SPDX-License-Identifier: Apache-2.0
#include "peer/replication/hedge_plan.h"

#include <algorithm>
#include <bit>

namespace leat {
namespace {

// Stochastic 95th percentile: a slower read moves the estimate up by 0.95 kStep, a faster one down
// by 0.05 kStep. It settles where one read in 20 is slower.
constexpr float kStep = 0.01f;
constexpr float kUp = 0.95f, kDown = 0.05f;

}  // namespace

size_t HedgePlan::size_of(uint64_t bytes) {
  return std::min<size_t>(static_cast<size_t>(std::bit_width(bytes)), 31);
}

std::optional<Clock::duration> HedgePlan::delay(uint64_t bytes) const {
  const Size& size = sizes_[size_of(bytes)];
  if (size.reads.load(std::memory_order_relaxed) < options_.reads_min) return std::nullopt;
  const std::chrono::duration<float> after(size.seconds.load(std::memory_order_relaxed));
  return std::max(std::chrono::duration_cast<Clock::duration>(after), options_.delay_min);
}

void HedgePlan::record(uint64_t bytes, Clock::duration took) {
  Size& size = sizes_[size_of(bytes)];
  const float now = std::chrono::duration<float>(took).count();
  const uint32_t reads = size.reads.load(std::memory_order_relaxed);
  float seconds = size.seconds.load(std::memory_order_relaxed);
  if (reads == 0) seconds = now;
  // Larger steps at the start.
  const float step = reads < options_.reads_min ? 10 * kStep : kStep;
  seconds *= now > seconds ? 1 + step * kUp : 1 - step * kDown;
  size.seconds.store(seconds, std::memory_order_relaxed);
  if (reads < options_.reads_min) size.reads.store(reads + 1, std::memory_order_relaxed);
  const uint32_t saved = budget_.load(std::memory_order_relaxed);
  if (saved < options_.burst_max * options_.reads_per_hedge) {
    budget_.store(saved + 1, std::memory_order_relaxed);
  }
}

bool HedgePlan::try_take() {
  uint32_t saved = budget_.load(std::memory_order_relaxed);
  while (saved >= options_.reads_per_hedge) {
    if (budget_.compare_exchange_weak(saved, saved - options_.reads_per_hedge,
                                      std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

}  // namespace leat
