// SPDX-License-Identifier: Apache-2.0
// SegmentRecord: one entry of a segment's .index: an object that was put into the segment, or the
// word that an object was dropped. Records are only ever appended; damaged ones are replaced in
// their place (SegmentIndex). Format: docs/formats/cache.md.
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
  enum class Kind : uint8_t { kObject = 1, kDropped = 2 };

  Kind kind = Kind::kObject;
  FileRef ref;                 // of a dropped object the id and, as its size, its segment
  uint64_t offset = 0;         // in the segment's .data, whole pages
  std::vector<uint32_t> crcs;  // CRC-32C of each block
  uint32_t origin = 0;         // of an object that was compacted: the segment whose turn is its own

  std::string encode() const { return encode(kind, ref, offset, crcs, origin); }
  static std::string encode(Kind kind, const FileRef& ref, uint64_t offset,
                            std::span<const uint32_t> crcs, uint32_t origin = 0);
  // The length of an object's record.
  static uint64_t encoded_bytes(std::string_view key, std::string_view version, size_t crcs);
  // Whether `bytes` begin with the mark of a record and a length that one can have.
  static bool begins(std::span<const std::byte> bytes);
  // The record at the start of `bytes`; its length is added to `*at`.
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
