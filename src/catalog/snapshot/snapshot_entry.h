// SPDX-License-Identifier: Apache-2.0
// One entry of a snapshot as bytes: in a block of the file, and on the way there.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "catalog/snapshot/snapshot.h"

namespace leat {

// Appends `entry`; its path begins with the first `shared` bytes of the one before. Returns where
// the five bytes of a directory's `below` lie in `into`.
size_t append_entry(std::string& into, const SnapshotEntry& entry, size_t shared);
void write_below(std::span<char> place, uint64_t below);
inline constexpr size_t kBelowBytes = 5;

// Reads the entry at `at` over the one before it, and moves `at` behind it. False, and nothing that
// counts, where the bytes are not one.
bool read_entry(std::span<const std::byte> bytes, size_t& at, SnapshotEntry& entry);
// The same, but only the path of `entry` counts afterwards.
bool read_path(std::span<const std::byte> bytes, size_t& at, SnapshotEntry& entry);

// The path of an entry at `at` that shares nothing, without the rest of it; and whether it is a
// directory. The bytes must be such an entry.
struct PathOfEntry {
  std::string_view path;
  bool directory;
};
PathOfEntry path_of_entry(std::span<const std::byte> bytes, size_t at);

}  // namespace leat
