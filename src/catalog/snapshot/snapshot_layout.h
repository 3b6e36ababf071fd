// SPDX-License-Identifier: Apache-2.0
// Constants of the snapshot format (docs/formats/snapshot.md), shared by writer and reader.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/hash.h"

namespace leat::snapshot_layout {

inline constexpr std::string_view kMagic = "LEATSNP1";
inline constexpr uint32_t kFormatVersion = 1;
inline constexpr size_t kHeaderBytes = 192;
inline constexpr size_t kHeaderCrcOffset = kHeaderBytes - 4;
inline constexpr uint64_t kBlockEntries = 8;  // entries that share prefixes

// Flags of an entry's first byte: its kind, the version's kind in three bits, whether the file is
// local.
inline constexpr uint8_t kDirectory = 0x01, kHasMtime = 0x02, kHexVersion = 0x04,
                         kWholeSeconds = 0x08, kLocal = 0x80;
inline constexpr unsigned kVersionKindShift = 4;
inline constexpr uint8_t kVersionKindMask = 0x07;

// A slot of the hash index: the entry's number + 1 (0: free), and 32 bits of its hash.
inline constexpr size_t kSlotBytes = 8;
constexpr uint64_t slots_for(uint64_t entries) {
  return entries + entries / 4 + 1;
}
constexpr uint64_t hash_of(std::string_view path, uint64_t seed) {
  return hash_bytes(path, seed);
}
constexpr uint64_t slot_of(uint64_t hash, uint64_t slots) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(hash) * slots >> 64);
}

}  // namespace leat::snapshot_layout
