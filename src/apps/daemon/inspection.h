// SPDX-License-Identifier: Apache-2.0
// What `.leat` in the root of a mount tells (vfs/inspected_file_system.h): of this mount, and of
// the daemon only what concerns it, since whoever may enter the folder may read it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "doors/admin/host.h"
#include "vfs/inspected_file_system.h"

namespace leat {

struct InspectionView {
  std::string version{};
  double uptime_seconds = 0;
  uint64_t restarts = 0;
  // At the folder, and inside it, outer ones first; none for a folder that was unmounted lazily.
  std::vector<MountView> mounts{};
  CacheView cache{};
  uint64_t memory_bytes = 0;
  uint64_t memory_bytes_max = 0;
  uint64_t requests_in_flight = 0;
  std::vector<UnavailableView> unavailable{};  // of the whole daemon
};

// `folder`: what the mount is; `files` outlives what is answered; `view` is called for each look.
std::vector<InspectionFile> inspection_files(std::string folder, const FileSystem& files,
                                             std::function<InspectionView()> view);

}  // namespace leat
