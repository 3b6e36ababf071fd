// SPDX-License-Identifier: Apache-2.0
// The running daemon with its mounts, and mounts of dead daemons.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "apps/doctor/finding.h"
#include "doors/admin/host.h"
#include "doors/fuse/connection/mount_point.h"

namespace leat {

struct DaemonFacts {
  std::optional<HostStatus> status{};
  Findings findings{};                 // the daemon's own, as the console shows them
  std::string unanswered{};            // why a live daemon does not respond
  std::vector<std::string> cleared{};  // actions on a killed daemon that hung
  std::string not_cleared{};           // why it could not be cleared
};
// Clears a dead daemon of `runtime`, as every command does, then queries the live one. Blocks for
// seconds at most.
DaemonFacts ask_daemon(const std::string& runtime);

Findings daemon_findings(const DaemonFacts& facts, const std::string& own_version);

enum class FolderState : uint8_t { kAnswers, kDead, kSilent };
struct Folder {
  std::string path;
  FolderState state = FolderState::kAnswers;
};
// Returns Leat's mounts of all users, except those that this user may not access.
std::vector<Folder> inspect_folders(const std::vector<MountinfoLine>& mounts,
                                    std::chrono::milliseconds patience);
Findings folder_findings(const std::vector<Folder>& folders);

}  // namespace leat
