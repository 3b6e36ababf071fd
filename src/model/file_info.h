// SPDX-License-Identifier: Apache-2.0
// FileInfo: the attributes of a name, from a listing or a stat of the store.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace leat {

enum class FileKind : uint8_t { kFile, kDirectory };

using WallTime = std::chrono::sys_time<std::chrono::nanoseconds>;

struct FileInfo {
  std::string name;  // last component; empty for a root
  FileKind kind = FileKind::kFile;
  uint64_t size = 0;
  std::optional<WallTime> mtime;  // as reported by the store; many have none for directories

  bool is_directory() const { return kind == FileKind::kDirectory; }
  friend bool operator==(const FileInfo&, const FileInfo&) = default;
};

}  // namespace leat
