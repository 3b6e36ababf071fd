// SPDX-License-Identifier: Apache-2.0
// ScrubLimiter: counts the bytes that a pass over the cache has read, and limits its rate. One for
// each pass; other threads may read the counters.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/task.h"

namespace leat {

// Bytes of one read of a pass.
inline constexpr uint64_t kScrubPieceBytes = 1 << 20;

class ScrubLimiter {
 public:
  // `until` and `closing` end the pass; 0 bytes a second means no limit.
  ScrubLimiter(Context until, const std::atomic<bool>& closing, uint64_t bytes_per_second)
      : until_(std::move(until)), closing_(closing), bytes_per_second_(bytes_per_second) {}

  // Counts bytes just read and waits until more are allowed; returns false if the pass has to end.
  Task<bool> read(uint64_t bytes) {
    bytes_ += bytes;
    if (bytes_per_second_ > 0) {
      const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_second_);
      const auto pause =
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
      co_return (co_await sleep_for(until_, pause)).has_value();
    }
    co_return !ended();
  }
  void object_done() { objects_.fetch_add(1, std::memory_order_relaxed); }
  bool ended() const { return closing_ || until_.cancelled() || until_.expired(); }

  uint64_t bytes() const { return bytes_; }
  uint64_t objects() const { return objects_; }

 private:
  const Context until_;
  const std::atomic<bool>& closing_;
  const uint64_t bytes_per_second_;
  std::atomic<uint64_t> bytes_ = 0, objects_ = 0;
};

}  // namespace leat
