// SPDX-License-Identifier: Apache-2.0
// ISA-L selects the fastest form that the processor supports. Its function inverts neither at the
// start nor at the end, and takes an int length.
#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace leat {

uint32_t crc32c(std::span<const std::byte> data, uint32_t seed) {
  constexpr size_t kStep = size_t{1} << 30;
  uint32_t crc = ~seed;
  while (!data.empty()) {
    size_t step = std::min(data.size(), kStep);
    auto* bytes = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(data.data()));
    crc = crc32_iscsi(bytes, static_cast<int>(step), crc);
    data = data.subspan(step);
  }
  return ~crc;
}

}  // namespace leat
