// SPDX-License-Identifier: Apache-2.0
// SegmentIndex: the records of a segment's .index one after the other, past damaged ones. A record
// has NUL bytes and a name has none, so nothing inside a damaged record passes for the next one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/packed/segment_record.h"
#include "model/byte_range.h"

namespace leat {

class SegmentIndex {
 public:
  // `bytes`: the whole file, header included, which outlives this. `at`: where a record begins.
  explicit SegmentIndex(std::span<const std::byte> bytes, size_t at = SegmentHeader::kBytes);

  // The next record that is whole. Nothing where no other follows: what is left after at() is a
  // torn or damaged end.
  std::optional<SegmentRecord> next();
  // Behind the last record that next() returned.
  size_t at() const { return at_; }
  // What next() has skipped so far: damaged, with whole records behind it.
  const std::vector<ByteRange>& damaged() const { return damaged_; }

  // A record that names no object, as long as `bytes`: it takes the place of damaged ones. At least
  // 80 bytes, a multiple of 8; `sequence`: of the segment. The word about a drop of the FileId 0.
  static std::string filler(uint32_t sequence, uint64_t bytes);
  static bool can_fill(uint64_t bytes);

 private:
  const std::span<const std::byte> bytes_;
  size_t at_;
  std::vector<ByteRange> damaged_;
};

uint64_t total_bytes(const std::vector<ByteRange>& ranges);

}  // namespace leat
