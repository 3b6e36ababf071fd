// SPDX-License-Identifier: Apache-2.0
// The running daemon with its mounts, and mounts of dead daemons.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "doctor/finding.h"
#include "frontends/admin/daemon_api.h"
#include "frontends/fuse/connection/mount_point.h"

namespace leat {

struct DaemonFacts {
  std::optional<DaemonStatus> status{};
  Findings findings{};                 // the daemon's own, as the console shows them
  std::string unresponsive{};          // why a live daemon does not respond
  std::vector<std::string> cleared{};  // actions on a killed daemon that hung
  std::string not_cleared{};           // why it could not be cleared
};

Findings daemon_findings(const DaemonFacts& facts, const std::string& own_version);

enum class MountState : uint8_t { kResponds, kDead, kHung };
struct CheckedMount {
  std::string path;
  MountState state = MountState::kResponds;
};
// Returns Leat's mounts of all users, except those that this user may not access.
std::vector<CheckedMount> inspect_mounts(const std::vector<MountinfoLine>& mounts,
                                         std::chrono::milliseconds timeout);
Findings mount_findings(const std::vector<CheckedMount>& folders);

}  // namespace leat
