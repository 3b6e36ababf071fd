// SPDX-License-Identifier: Apache-2.0
// The content of `.leat` in the root of a mount (vfs/inspection_file_system.h). It covers this
// mount, and only those parts of the daemon that concern it, since every user with access to the
// mount may read it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontends/admin/daemon_api.h"
#include "vfs/inspection_file_system.h"

namespace leat {

struct InspectionView {
  std::string version{};
  double uptime_seconds = 0;
  uint64_t restarts = 0;
  // At the mount and inside it, outer ones first; empty for a lazily unmounted mount.
  std::vector<MountView> mounts{};
  CacheView cache{};
  uint64_t memory_bytes = 0;
  uint64_t memory_bytes_max = 0;
  uint64_t requests_in_flight = 0;
  std::vector<UnavailableView> unavailable{};  // of the whole daemon
};

// `folder`: the path of the mount. `files` must outlive the result. `view` is called for each read.
std::vector<VirtualFile> inspection_files(std::string folder, const FileSystem& files,
                                          std::function<InspectionView()> view);

}  // namespace leat
