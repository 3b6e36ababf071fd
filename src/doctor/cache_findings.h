// SPDX-License-Identifier: Apache-2.0
// Whether a directory can be the cache, and the restrictions of its file system.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/page_store.h"
#include "doctor/finding.h"
#include "frontends/fuse/connection/mount_point.h"
#include "runtime/disk.h"

namespace leat {

struct CacheFacts {
  std::string directory{};
  uint64_t capacity_bytes = 0;  // as configured; 0: a tenth of the file system; likewise the next
  uint64_t free_bytes_min = 0;
  bool hung = false;      // the file system hangs; nothing else is known
  bool exists = false;    // else it would be created
  bool in_use = false;    // in use by the daemon
  std::string trouble{};  // why it cannot be used, or empty
  std::string file_system{};
  DiskUsage usage{};
  std::optional<uint64_t> used_bytes{};  // size of the cached data; nothing: unknown
  bool direct_io = true;
  std::optional<Result<>> backing{};  // whether FUSE passthrough works, if tested
};

struct CacheInspection {
  CacheFacts facts;
  File sample;  // an unnamed file in that file system; empty if it cannot be created
};
// Creates nothing except the sample. `used_bytes_of_daemon`: bytes that a running daemon has cached
// there; nothing: it does not use that directory. Blocks.
CacheInspection inspect_cache(const PageStoreOptions& options,
                              const std::vector<MountinfoLine>& mounts,
                              std::optional<uint64_t> used_bytes_of_daemon);

// Returns the type of the file system of `path`, by the longest mount point above it.
std::string file_system_of(const std::string& path, const std::vector<MountinfoLine>& mounts);

Findings cache_findings(const CacheFacts& facts, bool sys_admin);

}  // namespace leat
