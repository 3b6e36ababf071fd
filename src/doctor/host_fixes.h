// SPDX-License-Identifier: Apache-2.0
// HostFix: settings that only an administrator can change, once. Nothing else is changed.
#pragma once

#include <string>
#include <vector>

#include "doctor/finding.h"
#include "doctor/host_paths.h"

namespace leat {

struct HostFix {
  bool done = false;
  std::string what{};    // was done, or failed and why
  std::string action{};  // remaining step for the user; empty: none

  friend bool operator==(const HostFix&, const HostFix&) = default;
};
Json to_json(const HostFix& fix);

// Loads the fuse module if its device is missing. Lets it offer io_uring, now and after the next
// boot. Allows users to show mounts to others. Skips settings that are already right.
std::vector<HostFix> fix_host(const HostPaths& paths);

}  // namespace leat
