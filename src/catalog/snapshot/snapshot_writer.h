// SPDX-License-Identifier: Apache-2.0
// SnapshotWriter: writes a snapshot's file from the entries of a listing, in whatever order they
// come, in memory that does not grow with their number. Not thread-safe; blocks.
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
  std::string path;  // of the file to be; what is there is replaced when finish() succeeds
  uint64_t memory_bytes = 64 << 20;  // of entries that are sorted at once
  uint64_t names_max = kSnapshotNamesMax;
};

class SnapshotWriter {
 public:
  SnapshotWriter(SnapshotWriterOptions options, SnapshotHead head);
  ~SnapshotWriter();  // without finish(): nothing is left behind

  // A file, or a directory that has to exist even with nothing in it. A path that cannot be a
  // file's name (an empty component, ".", "..", more than 255 bytes, NUL) is counted as left out.
  // Directories on the way are made. kUnsupported as soon as there are too many.
  Result<> add(const SnapshotEntry& entry);
  // Keys that were not even added.
  void leave_out(uint64_t keys);

  // Writes it for good: fdatasync, rename, fsync of the folder. Where a path is file and directory
  // at once the directory stays and the file is counted as left out; of several entries of one path
  // the first stays.
  Result<SnapshotHead> finish();
  // Instead: a file without a name in the folder of `path`, which goes with the last who uses it.
  Result<SnapshotPtr> finish_unnamed();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace leat
