// SPDX-License-Identifier: Apache-2.0
// FaultGuess: detects the reads of an open file that the kernel makes around one page of a mapping
// (fault-around). When a mapped file is accessed at random, the kernel requests its whole readahead
// around each page, of which the program needs that page. When such a read fails, the kernel
// requests the page alone. So these reads may be rejected instead of fetched. Pure bookkeeping.
// Thread-safe.
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

class FaultGuess {
 public:
  // `around_bytes`: size of the kernel's read around a page. Nothing is rejected if that is a block
  // or less, which is fetched in any case.
  explicit FaultGuess(uint64_t around_bytes)
      : around_bytes_(around_bytes > kBlockBytes ? around_bytes : 0),
        concern_(around_bytes_ > 0 ? Concern::kLarge : Concern::kNone) {}

  // Whether observe() must be called for a read of that size.
  bool concerns(uint64_t size) const {
    const Concern concern = concern_.load(std::memory_order_relaxed);
    return concern == Concern::kAll || (concern == Concern::kLarge && size == around_bytes_);
  }
  struct Refusal {
    std::optional<ByteRange> page{};  // the page that is needed, as far as it is known
  };
  // Notes a read and returns whether it may be rejected. `alone`: it continues no earlier read.
  std::optional<Refusal> observe(ByteRange read, bool alone);

 private:
  enum class State { kLearning, kTrial, kMapped, kWhole };
  enum class Concern : uint8_t { kNone, kLarge, kAll };
  struct Refused {
    ByteRange read{};
    bool whole = false;  // all around a page, which is in its middle
    // Consecutive pages read from its middle and from its beginning, and the next page of each.
    uint64_t middle_next = 0, begin_next = 0;
    unsigned from_middle = 0, from_begin = 0;
  };
  static constexpr unsigned kLearnt = 3;          // reads alone before the trial
  static constexpr unsigned kTrialPatience = 64;  // reads until a trial without a result ends
  static constexpr unsigned kFromMiddleMax = 16;  // a block
  static constexpr unsigned kFromBeginMax = 4;    // one may be chance

  std::optional<Refusal> refuse(ByteRange read);
  // Whether `again` is a read that was rejected before, or a part of it.
  bool judge(ByteRange again);
  void refuse_no_more();

  const uint64_t around_bytes_;
  std::atomic<Concern> concern_;
  std::mutex mutex_;  // leaf
  State state_ = State::kLearning;
  unsigned alone_ = 0;
  unsigned since_trial_ = 0;
  std::array<Refused, 32> refused_{};
  size_t next_refused_ = 0;
};

}  // namespace leat
