// SPDX-License-Identifier: Apache-2.0
// What lies beside a small object. Who reads a data set in an order of his own comes by all of it,
// so with an object that the page cache lacks the piece of the segment around it is brought: the
// disk is asked a few times for much instead of once for each. Whether others of a piece were read
// before the kernel dropped it decides if more of that is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "model/byte_range.h"
#include "telemetry/metrics.h"

namespace leat {

// Of one segment: the pieces of which nothing was read yet but what they were brought for.
class Neighbourhood {
 private:
  friend class NeighbourReads;
  static constexpr uint64_t kNever = UINT64_MAX;

  std::mutex mutex_;                   // leaf
  std::vector<uint16_t> brought_for_;  // by piece: the first page in it of the object, + 1; 0: none
  std::atomic<uint32_t> unused_ = 0;   // pieces with one
  std::atomic<uint64_t> last_ = kNever;  // where the last read of an object began
};

// Of one cache directory. Thread-safe.
class NeighbourReads {
 public:
  // In whole pages, at most kPieceBytesMax; 0: nothing is ever brought.
  explicit NeighbourReads(uint64_t piece_bytes);
  static constexpr uint64_t kPieceBytesMax = uint64_t{16} << 20;

  // Not large ones, for which the way to the disk is not what counts.
  bool concerns(ByteRange object) const { return object.size * 2 <= piece_bytes_; }
  // The page cache has nothing of `object`. What to bring of the segment, of which so many bytes
  // are written, where the page cache has nothing of that either; nothing where the object had
  // better be read by itself: the segment is read in order, so that the kernel reads ahead, or
  // pieces were of little use lately.
  std::optional<ByteRange> missed(Neighbourhood& in, ByteRange object, uint64_t written);
  // That is being brought, for the object's sake.
  void brought(Neighbourhood& in, ByteRange object);
  void read(Neighbourhood& in, ByteRange object);

 private:
  bool take_mark(Neighbourhood& in, uint64_t piece, uint16_t except);
  uint16_t mark_of(ByteRange object) const;
  bool worthwhile();
  void judge(int change, Counter& counter);

  const uint64_t piece_bytes_;
  std::atomic<int> credit_;
  std::atomic<uint64_t> refused_ = 0;
};

}  // namespace leat
