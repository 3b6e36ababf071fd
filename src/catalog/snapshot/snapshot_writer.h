// SPDX-License-Identifier: Apache-2.0
// SnapshotWriter: writes a snapshot file from the entries of a listing, added in any order, in
// constant memory. Not thread-safe; blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/snapshot/snapshot.h"

namespace leat {

// The hash index has 32 bits for an entry's number + 1.
inline constexpr uint64_t kSnapshotNamesMax = UINT32_MAX - 1;

struct SnapshotWriterOptions {
  std::string path;  // of the new file; an existing one is replaced when finish() succeeds
  uint64_t memory_bytes = 64 << 20;  // buffer for sorting
  uint64_t names_max = kSnapshotNamesMax;
};

class SnapshotWriter {
 public:
  SnapshotWriter(SnapshotWriterOptions options, SnapshotHead head);
  ~SnapshotWriter();  // without finish(): removes its files

  // Adds a file, or a directory that must exist even if empty. An invalid path (an empty component,
  // ".", "..", more than 255 bytes, NUL) is counted as skipped. Parent directories are made.
  // Returns kUnsupported as soon as there are too many names.
  Result<> add(const SnapshotEntry& entry);
  // Counts keys that were not added.
  void add_skipped(uint64_t keys);

  // Writes the file durably: fdatasync, rename, fsync of the folder. If a path is file and
  // directory at once, the directory stays and the file is counted as skipped. Of several entries
  // of one path the first stays.
  Result<SnapshotHead> finish();
  // Alternative to finish(): an unlinked file in the folder of `path`, removed with its last user.
  Result<SnapshotPtr> finish_unnamed();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace leat
