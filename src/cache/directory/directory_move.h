// SPDX-License-Identifier: Apache-2.0
// Operations on whole cache directories that no process has open: move, measure, clear. All block.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "runtime/disk.h"

namespace leat {

struct MoveProgress {
  uint64_t bytes_done = 0, bytes_total = 0;
  uint64_t files_done = 0, files_total = 0;
};

// Moves the cache at `from` to `to`, which is created if missing and must be empty otherwise. On
// one file system it renames; otherwise it copies, and every byte is verified before the kernel may
// read it. The cache stays at `from` until all is there; the same call continues an interrupted
// move. Errors: kBusy if a process has one of them open, kNotFound without a cache at `from`,
// kExists with one at `to`, kNoSpace before anything is copied.
Result<MoveProgress> move_cache_directory(Disk& disk, const std::string& from,
                                          const std::string& to,
                                          const std::function<void(const MoveProgress&)>& listener);

// Returns the size of a cache; zeros if the directory is empty or missing. kInvalidArgument if it
// is not a cache.
Result<MoveProgress> measure_cache_directory(Disk& disk, const std::string& path);

// Removes all files of Leat, also of damaged and newer caches. Returns kBusy and kInvalidArgument
// as above. The next open creates a new cache in it.
Result<> clear_cache_directory(Disk& disk, const std::string& path);

}  // namespace leat
