// SPDX-License-Identifier: Apache-2.0
// FaultGuess: tells which reads of an open file the kernel makes around one page of a mapping.
// Where a mapped file is touched at random the kernel asks for its whole read-ahead around each
// page, of which the program wants that page; when such a read fails it asks for the page alone. So
// these reads may be refused instead of fetched. Pure bookkeeping. Thread-safe.
//
// How it is told from a program's own reads of that size: by one trial. What is asked next lies in
// the middle of what was refused (a mapping) or at its beginning (a program that wants all of it,
// which is never refused again).
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
  // `around_bytes`: what the kernel asks for around a page; nothing is refused where that is a
  // block or less, which is fetched in any case.
  explicit FaultGuess(uint64_t around_bytes)
      : around_bytes_(around_bytes > kBlockBytes ? around_bytes : 0),
        concern_(around_bytes_ > 0 ? Concern::kLarge : Concern::kNone) {}

  // Whether observe() has to be told of a read of that size.
  bool concerns(uint64_t size) const {
    const Concern concern = concern_.load(std::memory_order_relaxed);
    return concern == Concern::kAll || (concern == Concern::kLarge && size == around_bytes_);
  }
  struct Refusal {
    std::optional<ByteRange> page{};  // that is wanted, as far as that can be told
  };
  // Notes a read; whether it may be refused. `alone`: it goes on with nothing that was read before.
  std::optional<Refusal> observe(ByteRange read, bool alone);

 private:
  enum class State { kLearning, kTrial, kMapped, kWhole };
  enum class Concern : uint8_t { kNone, kLarge, kAll };
  struct Refused {
    ByteRange read{};
    bool whole = false;  // all around a page, which is in its middle
    // Pages asked one after the other, from its middle and from its beginning, and the next one.
    uint64_t middle_next = 0, begin_next = 0;
    unsigned from_middle = 0, from_begin = 0;
  };
  static constexpr unsigned kLearnt = 3;          // reads alone before the trial
  static constexpr unsigned kTrialPatience = 64;  // reads until a trial that shows nothing ends
  static constexpr unsigned kFromMiddleMax = 16;  // a block
  static constexpr unsigned kFromBeginMax = 4;    // one may be chance

  std::optional<Refusal> refuse(ByteRange read);
  // Whether it is what was refused before, or a part of it.
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
