// SPDX-License-Identifier: Apache-2.0
// Stripes: division of a large file among workers, so that one file has the network and the disks
// of several. A file of up to two stripes is one, so that small files are never split.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "model/byte_range.h"

namespace leat {

inline constexpr uint64_t kStripeBytes = 64 * kMiB;

// Returns the stripe of the byte at `offset`, counted from 0.
constexpr uint32_t stripe_at(uint64_t offset, uint64_t file_size) {
  return file_size <= 2 * kStripeBytes ? 0 : static_cast<uint32_t>(offset / kStripeBytes);
}

// Returns the part of the non-empty `range` that lies in the stripe of its first byte.
inline ByteRange first_stripe_of(ByteRange range, uint64_t file_size) {
  if (file_size <= 2 * kStripeBytes) return range;
  const uint64_t end = (range.offset / kStripeBytes + 1) * kStripeBytes;
  return {range.offset, std::min(range.size, end - range.offset)};
}

}  // namespace leat
