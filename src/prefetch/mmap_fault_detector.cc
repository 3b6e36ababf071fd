// SPDX-License-Identifier: Apache-2.0
#include "prefetch/mmap_fault_detector.h"

namespace leat {
namespace {

ByteRange middle_of(const ByteRange& read) {
  return {read.offset + read.size / 2, kPageBytes};
}

}  // namespace

std::optional<MmapFaultDetector::Rejection> MmapFaultDetector::observe(ByteRange read, bool alone) {
  std::lock_guard lock(mutex_);
  if (state_ == State::kWhole) return std::nullopt;
  // A repeated read is never rejected again, however large it is: the program would see the error.
  if (match_retry(read) || read.size <= kBlockBytes || !alone) return std::nullopt;
  if (state_ == State::kMapped) return reject(read);
  // Around a page near the beginning the kernel requests less before it than after it.
  if (read.size != around_bytes_ || read.offset == 0) return std::nullopt;
  if (state_ == State::kTrial) {
    if (++since_trial_ >= kTrialReadsMax) stop_rejecting();
    return std::nullopt;
  }
  if (++alone_ <= kLearningReads) return std::nullopt;
  state_ = State::kTrial;
  return reject(read);
}

// The kernel omits pages that it has already, and then the page may be anywhere in the range.
std::optional<MmapFaultDetector::Rejection> MmapFaultDetector::reject(ByteRange read) {
  const bool whole = read.size == around_bytes_ && read.offset > 0;
  const ByteRange page = middle_of(read);
  rejected_[next_rejected_++ % rejected_.size()] = {
      .read = read, .whole = whole, .middle_next = page.offset, .begin_next = read.offset};
  scope_.store(Scope::kAll, std::memory_order_relaxed);
  return whole ? Rejection{page} : Rejection{};
}

void MmapFaultDetector::stop_rejecting() {
  state_ = State::kWhole;
  scope_.store(Scope::kNone, std::memory_order_relaxed);
}

// Only a read of a part of a rejected range identifies the requester.
bool MmapFaultDetector::match_retry(ByteRange retry) {
  for (RejectedRead& one : rejected_) {
    if (one.read.empty() || !one.read.contains(retry)) continue;
    if (one.whole && retry.offset == one.middle_next) {
      if (one.from_middle == 0 && state_ == State::kTrial) state_ = State::kMapped;
      one.middle_next = retry.end();
      // It continues page by page: all are needed, and fetching them together is cheaper.
      if (++one.from_middle >= kFromMiddleMax) stop_rejecting();
    } else if (retry.offset == one.begin_next) {
      one.begin_next = retry.end();
      if (++one.from_begin >= kFromBeginMax) stop_rejecting();
    }
    return true;
  }
  return false;
}

}  // namespace leat
