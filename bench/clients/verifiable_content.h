// SPDX-License-Identifier: Apache-2.0
// Files with words that encode their file, version and offset, so that any part of a file is
// verified without a copy of it, at the speed of memory. Words of 64 bits, little-endian;
// sizes and offsets are multiples of 8.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace verifiable {

constexpr uint64_t kPerVersion = 0x9e3779b97f4a7c15;
constexpr uint64_t kPerWord = 0xd6e8feb86659fd93;
constexpr uint64_t kVersionMax = 1 << 20;

// FNV-1a of the name, mixed.
inline uint64_t file_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char one : name) hash = (hash ^ static_cast<unsigned char>(one)) * 0x100000001b3;
  hash ^= hash >> 32;
  return hash * 0xff51afd7ed558ccd;
}

inline uint64_t word(uint64_t file, uint64_t version, uint64_t offset) {
  return file + version * kPerVersion + offset / 8 * kPerWord;
}

inline void fill(uint64_t file, uint64_t version, uint64_t offset, char* into, size_t bytes) {
  uint64_t next = word(file, version, offset);
  for (size_t at = 0; at < bytes; at += 8, next += kPerWord) std::memcpy(into + at, &next, 8);
}

// Of an odd number, modulo 2^64: five steps of Newton's.
constexpr uint64_t inverse(uint64_t odd) {
  uint64_t found = odd;
  for (int step = 0; step < 5; ++step) found *= 2 - odd * found;
  return found;
}

// Returns the version of these bytes, or nothing if they are not those of one version at this
// offset.
inline std::optional<uint64_t> version_of(uint64_t file, uint64_t offset, const char* bytes,
                                          size_t size) {
  uint64_t first = 0;
  std::memcpy(&first, bytes, 8);
  const uint64_t version = (first - word(file, 0, offset)) * inverse(kPerVersion);
  if (version == 0 || version > kVersionMax) return std::nullopt;
  uint64_t differs = 0, expected = first;
  for (size_t at = 0; at + 8 <= size; at += 8, expected += kPerWord) {
    uint64_t found = 0;
    std::memcpy(&found, bytes + at, 8);
    differs |= found ^ expected;
  }
  if (differs != 0) return std::nullopt;
  return version;
}

}  // namespace verifiable
