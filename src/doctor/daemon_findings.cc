// SPDX-License-Identifier: Apache-2.0
#include "doctor/daemon_findings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <thread>

#include "base/units.h"
#include "doctor/stat_with_timeout.h"

namespace leat {
namespace {

// Each check runs in a child process.
constexpr size_t kParallelChecks = 16;

Finding running_finding(const DaemonStatus& status, const std::string& own_version) {
  const auto uptime = std::chrono::seconds(static_cast<int64_t>(status.uptime_seconds));
  Finding finding{.name = "daemon"};
  finding.what =
      fmt::format("leat {}, pid {}, up {}", status.version, status.pid, format_duration(uptime));
  if (status.version == own_version) return finding;
  finding.level = Level::kNote;
  finding.what += fmt::format("; this program is {}", own_version);
  finding.cost = "what came with the newer one is not in use";
  finding.action = status.supervisor_pid != 0
                       ? "leat upgrade, under the programs that read"
                       : "leat umount its folders when nobody uses them, and mount them again: "
                         "without a supervisor nobody starts the next daemon";
  return finding;
}

// Returns kResponds also for a mount that this user may not access.
MountState state_of_mount(const std::string& path, std::chrono::milliseconds timeout) {
  const std::optional<int> number = stat_with_timeout(path, timeout);
  if (!number) return MountState::kHung;
  const bool dead = *number == ENOTCONN || *number == ECONNABORTED;
  return dead ? MountState::kDead : MountState::kResponds;
}

}  // namespace

Findings daemon_findings(const DaemonFacts& facts, const std::string& own_version) {
  Findings findings;
  for (const std::string& what : facts.cleared) {
    findings.push_back({.level = Level::kNote,
                        .name = "daemon.dead",
                        .what = what,
                        .cost = "programs that waited for it got an error",
                        .action = "mount its folders again"});
  }
  if (!facts.not_cleared.empty()) {
    findings.push_back({.level = Level::kProblem,
                        .name = "daemon.dead",
                        .what = facts.not_cleared,
                        .cost = "its folders hang, and no other daemon starts in its place",
                        .action = "sudo leat doctor, with the same LEAT_RUNTIME_DIR"});
  } else if (!facts.unresponsive.empty()) {
    findings.push_back({.level = Level::kProblem,
                        .name = "daemon",
                        .what = facts.unresponsive,
                        .cost = "no command reaches it",
                        .action = "its log is daemon.log in that directory; at worst kill it"});
  } else if (facts.status) {
    findings.push_back(running_finding(*facts.status, own_version));
    append(findings, facts.findings);
  } else {
    findings.push_back({.name = "daemon", .what = "none runs; leat mount starts it"});
  }
  return findings;
}

std::vector<CheckedMount> inspect_mounts(const std::vector<MountinfoLine>& mounts,
                                         std::chrono::milliseconds timeout) {
  std::vector<CheckedMount> folders;
  for (const MountinfoLine& mount : mounts) {
    if (mount.type == "fuse.leat") folders.push_back({.path = unescape_mount(mount.point)});
  }
  // All mounts of a hanging daemon time out together.
  for (size_t begin = 0; begin < folders.size(); begin += kParallelChecks) {
    std::vector<std::jthread> checks;
    for (CheckedMount& folder : std::span(folders).subspan(begin).first(
             std::min(kParallelChecks, folders.size() - begin))) {
      checks.emplace_back(
          [&folder, timeout] { folder.state = state_of_mount(folder.path, timeout); });
    }
  }
  return folders;
}

Findings mount_findings(const std::vector<CheckedMount>& folders) {
  Findings findings;
  for (const CheckedMount& folder : folders) {
    if (folder.state == MountState::kDead) {
      findings.push_back({.level = Level::kProblem,
                          .name = "folder.dead",
                          .subject = folder.path,
                          .what = "its daemon is gone",
                          .cost = "programs get 'Transport endpoint is not connected'",
                          .action = "leat umount " + folder.path});
    } else if (folder.state == MountState::kHung) {
      findings.push_back({.level = Level::kProblem,
                          .name = "folder.silent",
                          .subject = folder.path,
                          .what = "it does not answer",
                          .cost = "programs that look into it wait",
                          .action = "leat status, and the daemon's log; at worst end the daemon, "
                                    "then leat umount " +
                                    folder.path});
    }
  }
  return findings;
}

}  // namespace leat
