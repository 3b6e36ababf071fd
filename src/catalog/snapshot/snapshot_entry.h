// SPDX-License-Identifier: Apache-2.0
// One snapshot entry as bytes: in a block of the file, and in the sorter.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "catalog/snapshot/snapshot.h"

namespace leat {

// Appends `entry`; its path begins with the first `shared` bytes of the previous one. Returns the
// offset in `into` of the five bytes of a directory's `below`.
size_t append_entry(std::string& into, const SnapshotEntry& entry, size_t shared);
void write_below(std::span<char> place, uint64_t below);
inline constexpr size_t kBelowBytes = 5;

// Decodes the entry at `at` over the previous one, and moves `at` behind it. Returns false for
// invalid bytes; the entry is undefined then.
bool read_entry(std::span<const std::byte> bytes, size_t& at, SnapshotEntry& entry);
// Same, but only the path of `entry` is valid afterwards.
bool read_path(std::span<const std::byte> bytes, size_t& at, SnapshotEntry& entry);

// Returns the path of an entry at `at` that shares nothing, without the rest of it, and whether it
// is a directory. The bytes must be such an entry.
struct PathOfEntry {
  std::string_view path;
  bool directory;
};
PathOfEntry path_of_entry(std::span<const std::byte> bytes, size_t at);

}  // namespace leat
