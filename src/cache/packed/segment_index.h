// SPDX-License-Identifier: Apache-2.0
// SegmentIndex: iterates over the records of a segment's .index and skips damaged ones. A record
// has NUL bytes and a name has none, so no part of a damaged record looks like the next one.
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
  // `bytes`: the whole file with its header; must outlive this. `at`: start of a record.
  explicit SegmentIndex(std::span<const std::byte> bytes, size_t at = SegmentHeader::kBytes);

  // Returns the next whole record. Returns nothing after the last one: the rest after at() is a
  // torn or damaged end.
  std::optional<SegmentRecord> next();
  // Offset behind the last record that next() returned.
  size_t at() const { return at_; }
  // Ranges that next() has skipped so far: damaged, with whole records behind them.
  const std::vector<ByteRange>& damaged() const { return damaged_; }

  // Returns a record of `bytes` that names no object and replaces damaged ones: the tombstone of
  // FileId 0. `bytes`: at least 80, a multiple of 8; `sequence`: of the segment.
  static std::string filler(uint32_t sequence, uint64_t bytes);
  static bool can_fill(uint64_t bytes);

 private:
  const std::span<const std::byte> bytes_;
  size_t at_;
  std::vector<ByteRange> damaged_;
};

uint64_t total_bytes(const std::vector<ByteRange>& ranges);

}  // namespace leat
