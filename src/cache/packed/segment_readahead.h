// SPDX-License-Identifier: Apache-2.0
// Segment readahead. A program that reads a data set in random order needs all of it. So when the
// page cache lacks an object, the piece of the segment around it is read too. That makes a few
// large reads instead of one for each object. The share of pieces that were used before the kernel
// dropped them decides whether this continues.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "model/byte_range.h"
#include "telemetry/metrics.h"

namespace leat {

// SegmentReadaheadState: the state of one segment: the pieces of which only the requested object
// was read so far.
class SegmentReadaheadState {
 private:
  friend class SegmentReadahead;
  static constexpr uint64_t kNever = UINT64_MAX;

  std::mutex mutex_;                  // leaf
  std::vector<uint16_t> read_for_;    // by piece: first page of its requested object + 1; 0: none
  std::atomic<uint32_t> unused_ = 0;  // pieces with a mark
  std::atomic<uint64_t> last_ = kNever;  // offset of the last object read
};

// SegmentReadahead: segment readahead of one cache directory. Thread-safe.
class SegmentReadahead {
 public:
  // `piece_bytes`: in whole pages, at most kPieceBytesMax; 0 disables readahead.
  explicit SegmentReadahead(uint64_t piece_bytes);
  static constexpr uint64_t kPieceBytesMax = uint64_t{16} << 20;

  // Excludes large objects, for which the number of requests does not matter.
  bool applies_to(ByteRange object) const { return object.size * 2 <= piece_bytes_; }
  // The page cache lacks `object`. Returns the range of the segment to read, if the page cache
  // lacks that too; `written` is the length of the segment. Returns nothing if the object should be
  // read alone: reads are sequential, so the kernel reads ahead, or pieces were of little use
  // lately.
  std::optional<ByteRange> on_miss(SegmentReadaheadState& in, ByteRange object, uint64_t written);
  // The piece is being read because of `object`.
  void on_readahead(SegmentReadaheadState& in, ByteRange object);
  void on_read(SegmentReadaheadState& in, ByteRange object);

 private:
  bool take_mark(SegmentReadaheadState& in, uint64_t piece, uint16_t except);
  uint16_t mark_of(ByteRange object) const;
  bool is_worthwhile();
  void adjust_credit(int change, Counter& counter);

  const uint64_t piece_bytes_;
  std::atomic<int> credit_;
  std::atomic<uint64_t> rejected_ = 0;
};

}  // namespace leat
