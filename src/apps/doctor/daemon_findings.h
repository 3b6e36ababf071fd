// SPDX-License-Identifier: Apache-2.0
// What runs already: the daemon with its mounts, and folders whose daemon is gone.
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
  Findings findings{};                 // that it has itself, as the console shows them
  std::string unanswered{};            // why a daemon that lives says nothing
  std::vector<std::string> cleared{};  // what was done to one that was killed and hung
  std::string not_cleared{};           // why that could not be done
};
// Frees what a dead daemon of `runtime` holds, as every command does. Blocks, for seconds at most.
DaemonFacts ask_daemon(const std::string& runtime);

Findings daemon_findings(const DaemonFacts& facts, const std::string& own_version);

enum class FolderState : uint8_t { kAnswers, kDead, kSilent };
struct Folder {
  std::string path;
  FolderState state = FolderState::kAnswers;
};
// Leat's mounts, whosever they are, but those into which this user may not look.
std::vector<Folder> inspect_folders(const std::vector<MountinfoLine>& mounts,
                                    std::chrono::milliseconds patience);
Findings folder_findings(const std::vector<Folder>& folders);

}  // namespace leat
