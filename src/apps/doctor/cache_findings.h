// SPDX-License-Identifier: Apache-2.0
// Whether a directory can be the cache, and what its file system takes away from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/doctor/finding.h"
#include "cache/page_store.h"
#include "doors/fuse/connection/mount_point.h"
#include "runtime/disk.h"

namespace leat {

struct CacheFacts {
  std::string directory{};
  uint64_t capacity_bytes = 0;  // as configured; 0: a tenth of the file system, each
  uint64_t free_bytes_min = 0;
  bool silent = false;    // it did not answer, so nothing else is known
  bool there = false;     // else it would be made
  bool held = false;      // by the daemon that was asked
  std::string trouble{};  // why it cannot be used; empty: it can
  std::string file_system{};
  DiskUsage usage{};
  std::optional<uint64_t> used_bytes{};  // by what is cached; nothing: not known
  bool direct_io = true;
  std::optional<Result<>> backing{};  // whether the kernel reads its files by itself, where asked
};

struct CacheInspection {
  CacheFacts facts;
  File sample;  // a file without a name in that file system; none where it cannot be had
};
// Makes nothing but that. `used_bytes_of_daemon`: what a running daemon has cached there; nothing:
// it has not that directory. Blocks.
CacheInspection inspect_cache(const PageStoreOptions& options,
                              const std::vector<MountinfoLine>& mounts,
                              std::optional<uint64_t> used_bytes_of_daemon);

// The type of the file system that `path` lies in, by the longest mount point above it.
std::string file_system_of(const std::string& path, const std::vector<MountinfoLine>& mounts);

Findings cache_findings(const CacheFacts& facts, bool sys_admin);

}  // namespace leat
