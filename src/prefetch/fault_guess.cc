// SPDX-License-Identifier: Apache-2.0
#include "prefetch/fault_guess.h"

namespace leat {
namespace {

constexpr uint64_t kPageBytes = 4096;

ByteRange middle_of(const ByteRange& read) {
  return {read.offset + read.size / 2, kPageBytes};
}

}  // namespace

std::optional<FaultGuess::Refusal> FaultGuess::observe(ByteRange read, bool alone) {
  std::lock_guard lock(mutex_);
  if (state_ == State::kWhole) return std::nullopt;
  // A repeated read is never rejected again, however large it is: the program would see the error.
  if (judge(read) || read.size <= kBlockBytes || !alone) return std::nullopt;
  if (state_ == State::kMapped) return refuse(read);
  // Around a page near the beginning the kernel requests less before it than after it.
  if (read.size != around_bytes_ || read.offset == 0) return std::nullopt;
  if (state_ == State::kTrial) {
    if (++since_trial_ >= kTrialPatience) refuse_no_more();
    return std::nullopt;
  }
  if (++alone_ <= kLearnt) return std::nullopt;
  state_ = State::kTrial;
  return refuse(read);
}

// The kernel omits pages that it has already, and then the page may be anywhere in the range.
std::optional<FaultGuess::Refusal> FaultGuess::refuse(ByteRange read) {
  const bool whole = read.size == around_bytes_ && read.offset > 0;
  const ByteRange page = middle_of(read);
  refused_[next_refused_++ % refused_.size()] = {
      .read = read, .whole = whole, .middle_next = page.offset, .begin_next = read.offset};
  concern_.store(Concern::kAll, std::memory_order_relaxed);
  return whole ? Refusal{page} : Refusal{};
}

void FaultGuess::refuse_no_more() {
  state_ = State::kWhole;
  concern_.store(Concern::kNone, std::memory_order_relaxed);
}

// Only a read of a part of a rejected range identifies the requester.
bool FaultGuess::judge(ByteRange again) {
  for (Refused& one : refused_) {
    if (one.read.empty() || !one.read.contains(again)) continue;
    if (one.whole && again.offset == one.middle_next) {
      if (one.from_middle == 0 && state_ == State::kTrial) state_ = State::kMapped;
      one.middle_next = again.end();
      // It continues page by page: all are needed, and fetching them together is cheaper.
      if (++one.from_middle >= kFromMiddleMax) refuse_no_more();
    } else if (again.offset == one.begin_next) {
      one.begin_next = again.end();
      if (++one.from_begin >= kFromBeginMax) refuse_no_more();
    }
    return true;
  }
  return false;
}

}  // namespace leat
