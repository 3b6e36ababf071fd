// SPDX-License-Identifier: Apache-2.0
// A FileSystem with a virtual directory `.leat` in its root, with files about it. It is found by
// name, in no listing, and read-only. An own entry `.leat` of the file system has priority.
//
// The directory's node number is constant; each lookup of a file in it creates the file again
// (VirtualFiles). The kernel caches nothing of it, and a takeover or a count of nodes does not
// include it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "vfs/file_system.h"

namespace leat {

inline constexpr std::string_view kInspectionName = ".leat";

struct VirtualFile {
  std::string name{};
  // Runs on any thread; must not wait.
  std::function<std::string()> content{};
};

struct InspectionOptions {
  // While a store does not respond, it is unknown whether it has that name. A lookup waits for
  // `lookup_timeout`, then assumes for `absence_ttl` that there is none, unless the last answer had
  // one.
  Clock::duration lookup_timeout = std::chrono::seconds(2);
  Clock::duration absence_ttl = std::chrono::seconds(5);
  std::function<Clock::time_point()> now = &Clock::now;
};

std::unique_ptr<FileSystem> with_inspection(std::unique_ptr<FileSystem> files,
                                            std::vector<VirtualFile> virtual_files,
                                            InspectionOptions options = {});

}  // namespace leat
