// SPDX-License-Identifier: Apache-2.0
// HostFix: what only an administrator has to set, once. Nothing else is changed.
#pragma once

#include <string>
#include <vector>

#include "apps/doctor/finding.h"
#include "apps/doctor/host_places.h"

namespace leat {

struct HostFix {
  bool done = false;
  std::string what{};    // was done, or could not be and why
  std::string action{};  // what is left to do; empty: nothing

  friend bool operator==(const HostFix&, const HostFix&) = default;
};
Json to_json(const HostFix& fix);

// Loads the fuse module where its device is missing, lets it offer io_uring now and after the next
// boot, and lets users show folders to others. What is so already is not touched and not said.
std::vector<HostFix> fix_host(const HostPlaces& places);

}  // namespace leat
