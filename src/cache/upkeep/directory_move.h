// SPDX-License-Identifier: Apache-2.0
// What is done with whole cache directories that no process has open: moved to another place, made
// empty. All block.
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

// Moves the cache at `from` to `to`, which is made if it is missing and else has to be empty. By
// rename on one file system, else by copying; then every byte is verified before the kernel is
// given it. Until all is there the cache is the one at `from`; when it was interrupted, the same
// call goes on with it. kBusy where a process has one of them open, kNotFound where there is no
// cache, kExists where there is one already, kNoSpace before anything is copied.
Result<MoveProgress> move_cache_directory(Disk& disk, const std::string& from,
                                          const std::string& to,
                                          const std::function<void(const MoveProgress&)>& listener);

// What a cache directory holds; nothing in one that is empty or missing. kInvalidArgument where it
// is something else than a cache.
Result<MoveProgress> measure_cache_directory(Disk& disk, const std::string& path);

// Removes everything that is Leat's from it, damaged and newer caches, too. kBusy, kInvalidArgument
// as above. The next open makes a new cache in it.
Result<> clear_cache_directory(Disk& disk, const std::string& path);

}  // namespace leat
