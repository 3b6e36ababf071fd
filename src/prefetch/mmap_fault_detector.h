// SPDX-License-Identifier: Apache-2.0
// MmapFaultDetector: detects the reads of an open file that the kernel makes around one page of a
// mapping (fault-around). When a mapped file is accessed at random, the kernel requests its whole
// readahead around each page, of which the program needs that page. When such a read fails, the
// kernel requests the page alone. So these reads may be rejected instead of fetched. Pure
// bookkeeping. Thread-safe.
//
// A trial distinguishes them from a program's own reads of that size: one read is rejected. The
// next read lies either in its middle (a mapping) or at its beginning (a program that needs all of
// it, which is never rejected again).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "model/byte_range.h"

namespace leat {

class MmapFaultDetector {
 public:
  // `around_bytes`: size of the kernel's read around a page. Nothing is rejected if that is a block
  // or less, which is fetched in any case.
  explicit MmapFaultDetector(uint64_t around_bytes)
      : around_bytes_(around_bytes > kBlockBytes ? around_bytes : 0),
        scope_(around_bytes_ > 0 ? Scope::kLarge : Scope::kNone) {}

  // Whether observe() must be called for a read of that size.
  bool applies_to(uint64_t size) const {
    const Scope scope = scope_.load(std::memory_order_relaxed);
    return scope == Scope::kAll || (scope == Scope::kLarge && size == around_bytes_);
  }
  struct Rejection {
    std::optional<ByteRange> page{};  // the page that is needed, as far as it is known
  };
  // Records a read and returns whether it may be rejected. `alone`: it continues no earlier read.
  std::optional<Rejection> observe(ByteRange read, bool alone);

 private:
  enum class State { kLearning, kTrial, kMapped, kWhole };
  enum class Scope : uint8_t { kNone, kLarge, kAll };
  struct RejectedRead {
    ByteRange read{};
    bool whole = false;  // all around a page, which is in its middle
    // Consecutive pages read from its middle and from its beginning, and the next page of each.
    uint64_t middle_next = 0, begin_next = 0;
    unsigned from_middle = 0, from_begin = 0;
  };
  static constexpr unsigned kLearningReads = 3;   // reads alone before the trial
  static constexpr unsigned kTrialReadsMax = 64;  // reads until a trial without a result ends
  static constexpr unsigned kFromMiddleMax = 16;  // a block
  static constexpr unsigned kFromBeginMax = 4;    // one may be chance

  std::optional<Rejection> reject(ByteRange read);
  // Whether `again` is a read that was rejected before, or a part of it.
  bool match_retry(ByteRange retry);
  void stop_rejecting();

  const uint64_t around_bytes_;
  std::atomic<Scope> scope_;
  std::mutex mutex_;  // leaf
  State state_ = State::kLearning;
  unsigned alone_ = 0;
  unsigned since_trial_ = 0;
  std::array<RejectedRead, 32> rejected_{};
  size_t next_rejected_ = 0;
};

}  // namespace leat
