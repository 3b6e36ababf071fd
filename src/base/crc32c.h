// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli, RFC 3720 appendix B.4), the checksum of every block and record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace leat {

// Returns the CRC of `data`, continued from `seed` (the CRC of the preceding bytes; 0 to start).
uint32_t crc32c(std::span<const std::byte> data, uint32_t seed = 0);

}  // namespace leat
