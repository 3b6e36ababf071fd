// SPDX-License-Identifier: Apache-2.0
// SegmentRecord: one entry of a segment's .index: an object stored in the segment, or the tombstone
// of a dropped object. Records are only appended; damaged ones are replaced in place
// (SegmentIndex). Format: docs/formats/cache.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/id128.h"
#include "model/byte_range.h"
#include "model/file_ref.h"

namespace leat {

struct SegmentRecord {
  enum class Kind : uint8_t { kObject = 1, kTombstone = 2 };

  Kind kind = Kind::kObject;
  FileRef ref;                 // tombstone: the id and, as its size, the object's segment
  uint64_t offset = 0;         // in .data, whole pages
  std::vector<uint32_t> crcs;  // CRC-32C of each block
  uint32_t origin = 0;         // compacted object: the segment that sets its age

  std::string encode() const { return encode(kind, ref, offset, crcs, origin); }
  static std::string encode(Kind kind, const FileRef& ref, uint64_t offset,
                            std::span<const uint32_t> crcs, uint32_t origin = 0);
  // Returns the length of an object's record.
  static uint64_t encoded_bytes(std::string_view key, std::string_view version, size_t crcs);
  // Returns true if `bytes` begin with a record's mark and a valid length.
  static bool begins(std::span<const std::byte> bytes);
  // Decodes the record at the start of `bytes` and adds its length to `*at`.
  static std::optional<SegmentRecord> decode(std::span<const std::byte> bytes, size_t* at);
};

struct SegmentHeader {
  static constexpr size_t kBytes = 64;

  uint64_t sequence = 0;
  Id128 directory;  // the superblock's uuid
  PoolId pool = PoolId::kNone;

  std::string encode() const;
  static std::optional<SegmentHeader> decode(std::span<const std::byte> bytes);
};

}  // namespace leat
