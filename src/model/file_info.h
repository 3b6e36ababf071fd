// SPDX-License-Identifier: Apache-2.0
// FileInfo: what a name stands for, as a listing or a stat of the store told it.
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
  std::optional<WallTime> mtime;  // as the store says it; many have none for directories

  bool is_directory() const { return kind == FileKind::kDirectory; }
  friend bool operator==(const FileInfo&, const FileInfo&) = default;
};

}  // namespace leat
