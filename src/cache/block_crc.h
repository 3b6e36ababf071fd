// SPDX-License-Identifier: Apache-2.0
// Returns the checksum of each block of `data`, which begins at a block boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace leat {

std::vector<uint32_t> block_crcs(const Bytes& data);
std::vector<uint32_t> block_crcs(std::span<const std::byte> data);
// Returns one checksum over all of them.
uint32_t crc_of_crcs(const std::vector<uint32_t>& crcs);

}  // namespace leat
