// SPDX-License-Identifier: Apache-2.0
#include "cache/block_crc.h"

#include <algorithm>

#include "base/crc32c.h"
#include "model/byte_range.h"

namespace leat {

std::vector<uint32_t> block_crcs(const Bytes& data) {
  std::vector<uint32_t> crcs;
  for (size_t at = 0; at < data.size(); at += kBlockBytes) {
    uint32_t crc = 0;
    Bytes block = data.sub(at, kBlockBytes);
    for (const Slice& slice : block.slices()) crc = crc32c(slice.span(), crc);
    crcs.push_back(crc);
  }
  return crcs;
}

std::vector<uint32_t> block_crcs(std::span<const std::byte> data) {
  std::vector<uint32_t> crcs;
  for (size_t at = 0; at < data.size(); at += kBlockBytes) {
    crcs.push_back(crc32c(data.subspan(at, std::min<size_t>(kBlockBytes, data.size() - at))));
  }
  return crcs;
}

uint32_t crc_of_crcs(const std::vector<uint32_t>& crcs) {
  return crc32c(std::as_bytes(std::span(crcs)));
}

}  // namespace leat
