// SPDX-License-Identifier: Apache-2.0
#include "cache/packed/segment_readahead.h"

#include <algorithm>

#include "base/units.h"
#include "cache/capacity.h"

namespace leat {
namespace {

Counter pieces_used("leat_cache_segment_readahead_pieces_total",
                    "Pieces of segments read ahead into the page cache around a small object",
                    R"(use="used")", Stability::kExperimental);
Counter pieces_wasted("leat_cache_segment_readahead_pieces_total",
                      "Pieces of segments read ahead into the page cache around a small object",
                      R"(use="wasted")", Stability::kExperimental);

// An unused piece costs the disk several times the object; a used one saves at least one request.
// So two of three pieces must be used. Some tens of pieces decide.
constexpr int kUsed = 1, kWasted = -2;
constexpr int kInitialCredit = 32, kCreditMax = 64, kCreditMin = -16;
// One of this many rejected pieces is read nevertheless, to detect that they are useful again.
constexpr uint64_t kProbeEvery = 64;
constexpr uint16_t kNoMark = 0;

uint64_t distance(uint64_t a, uint64_t b) {
  return a > b ? a - b : b - a;
}

}  // namespace

SegmentReadahead::SegmentReadahead(uint64_t piece_bytes)
    : piece_bytes_(align_up(std::min(piece_bytes, kPieceBytesMax), kPageBytes)),
      credit_(kInitialCredit) {}

std::optional<ByteRange> SegmentReadahead::on_miss(SegmentReadaheadState& in, ByteRange object,
                                                   uint64_t written) {
  if (!applies_to(object)) return std::nullopt;
  const uint64_t last = in.last_.exchange(object.offset, std::memory_order_relaxed);
  if (last != SegmentReadaheadState::kNever && distance(last, object.offset) <= 2 * piece_bytes_) {
    return std::nullopt;
  }
  const uint64_t piece = object.offset / piece_bytes_;
  const uint64_t from = piece * piece_bytes_;
  const uint64_t to = std::min(std::max(from + piece_bytes_, object.end()), written);
  if (to < object.end()) return std::nullopt;
  if (take_mark(in, piece, kNoMark)) adjust_credit(kWasted, pieces_wasted);
  if (!is_worthwhile()) return std::nullopt;
  return ByteRange{from, to - from};
}

void SegmentReadahead::on_readahead(SegmentReadaheadState& in, ByteRange object) {
  const uint64_t piece = object.offset / piece_bytes_;
  std::lock_guard lock(in.mutex_);
  if (in.read_for_.size() <= piece) in.read_for_.resize(piece + 1);
  if (in.read_for_[piece] != kNoMark) return;  // another reader did so meanwhile
  in.read_for_[piece] = mark_of(object);
  ++in.unused_;
}

void SegmentReadahead::on_read(SegmentReadaheadState& in, ByteRange object) {
  if (piece_bytes_ == 0) return;
  in.last_.store(object.offset, std::memory_order_relaxed);
  if (take_mark(in, object.offset / piece_bytes_, mark_of(object)))
    adjust_credit(kUsed, pieces_used);
}

// Removes the mark of the piece. Returns true if it had one other than `except`.
bool SegmentReadahead::take_mark(SegmentReadaheadState& in, uint64_t piece, uint16_t except) {
  if (in.unused_.load(std::memory_order_relaxed) == 0) return false;
  std::lock_guard lock(in.mutex_);
  if (in.read_for_.size() <= piece) return false;
  uint16_t& read_for = in.read_for_[piece];
  if (read_for == kNoMark || read_for == except) return false;
  read_for = kNoMark;
  --in.unused_;
  return true;
}

uint16_t SegmentReadahead::mark_of(ByteRange object) const {
  return static_cast<uint16_t>(object.offset % piece_bytes_ / kPageBytes + 1);
}

bool SegmentReadahead::is_worthwhile() {
  if (credit_.load(std::memory_order_relaxed) > 0) return true;
  return rejected_.fetch_add(1, std::memory_order_relaxed) % kProbeEvery == kProbeEvery - 1;
}

void SegmentReadahead::adjust_credit(int change, Counter& counter) {
  counter.add();
  int now = credit_.load(std::memory_order_relaxed), next;
  do {
    next = std::clamp(now + change, kCreditMin, kCreditMax);
  } while (!credit_.compare_exchange_weak(now, next, std::memory_order_relaxed));
}

}  // namespace leat
