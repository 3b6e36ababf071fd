// SPDX-License-Identifier: Apache-2.0
// ByteRange: [offset, offset + size).
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

#include "base/units.h"

namespace leat {

struct ByteRange {
  uint64_t offset = 0;
  uint64_t size = 0;

  uint64_t end() const { return offset + size; }
  bool empty() const { return size == 0; }
  bool contains(const ByteRange& other) const {
    return other.offset >= offset && other.end() <= end();
  }
  bool overlaps(const ByteRange& other) const {
    return offset < other.end() && other.offset < end();
  }
  ByteRange clamp(uint64_t file_size) const {
    uint64_t from = std::min(offset, file_size);
    return {from, std::min(end(), file_size) - from};
  }
  // Returns the smallest range of whole units that contains this one, cut at `file_size`.
  ByteRange widen(uint64_t unit, uint64_t file_size) const {
    uint64_t from = align_down(offset, unit);
    return ByteRange{from, align_up(end(), unit) - from}.clamp(file_size);
  }

  friend auto operator<=>(const ByteRange&, const ByteRange&) = default;
};

// Granularity of disks and of the kernel's page cache, bytes.
inline constexpr uint64_t kPageBytes = 4096;
// Granularity of validity, checksums and fetches, bytes.
inline constexpr uint64_t kBlockBytes = 64 * kKiB;

}  // namespace leat
