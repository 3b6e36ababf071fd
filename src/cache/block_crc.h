// SPDX-License-Identifier: Apache-2.0
// The checksum of each block of some bytes that start at a block's start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace leat {

std::vector<uint32_t> block_crcs(const Bytes& data);
std::vector<uint32_t> block_crcs(std::span<const std::byte> data);
// One for all of them.
uint32_t crc_of_crcs(const std::vector<uint32_t>& crcs);

}  // namespace leat
