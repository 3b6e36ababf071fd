// SPDX-License-Identifier: Apache-2.0
// ObjectMeta: the .meta file beside the data of an object with its own file: its id, its blocks and
// their checksums. Format: docs/formats/cache.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/byte_range.h"
#include "model/file_ref.h"

namespace leat {

// Objects with a longer key or version are not cached.
inline constexpr size_t kKeyBytesMax = 16 * kKiB;
inline constexpr size_t kVersionBytesMax = 4 * kKiB;
inline constexpr uint64_t kFileBytesMax = uint64_t{8} << 40;  // its .meta has 1 GiB

constexpr uint64_t block_count(uint64_t size) {
  return align_up(size, kBlockBytes) / kBlockBytes;
}

struct ObjectMeta {
  enum class State : uint32_t {
    kFilling = 0x4c4c4946,   // "FILL": the records of the blocks say which are present
    kComplete = 0x454e4f44,  // "DONE": every block was durable before this was written
  };
  static constexpr uint64_t kStateOffset = 12;

  FileRef ref;
  State state = State::kFilling;
  uint64_t header_bytes = 0;
  // One per block: the CRC-32C of its bytes, or nothing if the block is missing.
  std::vector<std::optional<uint32_t>> blocks;

  // Returns the header of a new object. With zeros up to file_bytes(), no block is present.
  static std::string encode_new(const FileRef& ref);
  static std::string encode_state(State state);
  // Return the records of consecutive blocks, present with these checksums or missing.
  static std::string encode_blocks(std::span<const uint32_t> crcs);
  static std::string encode_no_blocks(uint64_t count);
  static constexpr uint64_t kRecordBytes = 8;
  // Size of a new object's header. The record of block i lies i times kRecordBytes behind it.
  static uint64_t new_header_bytes(const FileRef& ref);
  static uint64_t file_bytes(const FileRef& ref);

  // Returns kCorrupt if anything but single block records is wrong.
  static Result<ObjectMeta> decode(std::span<const std::byte> bytes);
};

}  // namespace leat
