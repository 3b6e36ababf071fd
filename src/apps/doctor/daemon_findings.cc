// SPDX-License-Identifier: Apache-2.0
#include "apps/doctor/daemon_findings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <thread>

#include "apps/client/daemon_client.h"
#include "apps/daemon/dead_daemon.h"
#include "apps/doctor/bounded_look.h"
#include "apps/doctor/host_places.h"
#include "apps/findings/status_findings.h"
#include "apps/paths.h"
#include "base/units.h"
#include "runtime/disk.h"

namespace leat {
namespace {

constexpr auto kDaemonPatience = std::chrono::seconds(10);
// Each check runs in a child process.
constexpr size_t kLooksAtOnce = 16;

// Tests the lock of the pid file, which a daemon holds for its whole life.
bool lives(const std::string& runtime) {
  const File file(::open(pid_file(runtime).c_str(), O_RDONLY | O_CLOEXEC));
  return file && ::flock(file.fd(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

Finding running_finding(const HostStatus& status, const std::string& own_version) {
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

// Returns the console's findings. An older daemon has no such list; then its status gives them.
Findings findings_of(DaemonClient& daemon, const HostStatus& status) {
  Attempt<Json> told = daemon.get("/v1/findings");
  if (!told) return status_findings(status, {}, WallTime());
  Findings findings;
  for (const Json& json : told->value("findings", Json::array())) {
    if (auto finding = from_json<Finding>(json)) findings.push_back(*std::move(finding));
  }
  return findings;
}

// Returns kAnswers also for a folder that this user may not access.
FolderState state_of_folder(const std::string& path, std::chrono::milliseconds patience) {
  const std::optional<int> number = look_at(path, patience);
  if (!number) return FolderState::kSilent;
  const bool dead = *number == ENOTCONN || *number == ECONNABORTED;
  return dead ? FolderState::kDead : FolderState::kAnswers;
}

}  // namespace

DaemonFacts ask_daemon(const std::string& runtime) {
  DaemonFacts facts;
  auto say = [&facts](std::string what) { facts.cleared.push_back(std::move(what)); };
  if (auto cleared = clear_dead_daemon(runtime, say); !cleared) {
    facts.not_cleared = cleared.error().to_string();
    return facts;
  }
  DaemonClient daemon(runtime);
  if (!daemon.running(kDaemonPatience)) {
    Result<> safe = check_runtime_directory(runtime);
    if (!safe && safe.error().code() != StatusCode::kNotFound) {
      facts.unanswered = safe.error().message();
    } else if (lives(runtime)) {
      facts.unanswered = fmt::format("the daemon of {} (pid {}) lives and does not answer", runtime,
                                     first_line(pid_file(runtime)));
    }
    return facts;
  }
  if (auto status = daemon.get_as<HostStatus>("/v1/status")) {
    facts.status = std::move(*status);
    facts.findings = findings_of(daemon, *facts.status);
  } else if (status.error().code != ExitCode::kNoDaemon) {
    facts.unanswered = status.error().status.to_string();
  }
  return facts;
}

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
  } else if (!facts.unanswered.empty()) {
    findings.push_back({.level = Level::kProblem,
                        .name = "daemon",
                        .what = facts.unanswered,
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

std::vector<Folder> inspect_folders(const std::vector<MountinfoLine>& mounts,
                                    std::chrono::milliseconds patience) {
  std::vector<Folder> folders;
  for (const MountinfoLine& mount : mounts) {
    if (mount.type == "fuse.leat") folders.push_back({.path = unescape_mount(mount.point)});
  }
  // All folders of a hanging daemon time out together.
  for (size_t begin = 0; begin < folders.size(); begin += kLooksAtOnce) {
    std::vector<std::jthread> looks;
    for (Folder& folder :
         std::span(folders).subspan(begin).first(std::min(kLooksAtOnce, folders.size() - begin))) {
      looks.emplace_back(
          [&folder, patience] { folder.state = state_of_folder(folder.path, patience); });
    }
  }
  return folders;
}

Findings folder_findings(const std::vector<Folder>& folders) {
  Findings findings;
  for (const Folder& folder : folders) {
    if (folder.state == FolderState::kDead) {
      findings.push_back({.level = Level::kProblem,
                          .name = "folder.dead",
                          .subject = folder.path,
                          .what = "its daemon is gone",
                          .cost = "programs get 'Transport endpoint is not connected'",
                          .action = "leat umount " + folder.path});
    } else if (folder.state == FolderState::kSilent) {
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
