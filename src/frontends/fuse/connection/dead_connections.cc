// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/connection/dead_connections.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "base/read_file.h"
#include "runtime/disk.h"
#include "telemetry/log.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr const char* kControls = "/sys/fs/fuse/connections";
constexpr uint64_t kPfExiting = 4;  // PF_EXITING of include/linux/sched.h, in field 9 of stat
constexpr auto kPollInterval = std::chrono::milliseconds(10);

// Returns "" for a file that has just disappeared.
std::string text_of(const fs::path& path) {
  return read_file(path).value_or("");
}

void for_each_in(const fs::path& folder, const std::function<void(const fs::path&)>& take) {
  std::error_code failed;
  for (fs::directory_iterator item(folder, failed), end; !failed && item != end;
       item.increment(failed)) {
    take(item->path());
  }
}

fs::path proc_of(int pid) {
  return fmt::format("/proc/{}", pid);
}

// Reads the threads' entries: once the first thread has ended, the process itself shows no
// descriptors.
std::set<unsigned> connections_held(int pid) {
  constexpr std::string_view kKey = "fuse_connection:";
  std::set<unsigned> held;
  for_each_in(proc_of(pid) / "task", [&](const fs::path& thread) {
    for_each_in(thread / "fdinfo", [&](const fs::path& descriptor) {
      std::ifstream lines(descriptor);
      for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(kKey)) continue;
        unsigned number = 0;
        std::istringstream(line.substr(kKey.size())) >> number;
        if (number != 0) held.insert(number);
      }
    });
  });
  return held;
}

// Reads a thread's state from its stat text: it follows the name in brackets.
bool has_ended(std::string_view stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return true;
  const std::string_view state = stat.substr(name_end + 1, 2);
  return state == " Z" || state == " X";
}

bool contains(const std::vector<MountinfoLine>& mounts, const MountinfoLine& mount) {
  return std::ranges::find(mounts, mount) != mounts.end();
}

unsigned connection_of(const std::string& device) {
  const size_t colon = device.find(':');
  unsigned number = 0;
  if (colon == std::string::npos || device.substr(0, colon) != "0") return 0;
  std::istringstream(device.substr(colon + 1)) >> number;
  return number;
}

// Opens the control files by a private mount, because not every host has them mounted.
File open_own_controls() {
  const File made(::fsopen("fusectl", FSOPEN_CLOEXEC));
  if (!made) return {};
  if (::fsconfig(made.fd(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return {};
  return File(::fsmount(made.fd(), FSMOUNT_CLOEXEC, 0));
}

Status abort_error(unsigned connection, int number) {
  const bool there = ::access(fmt::format("{}/{}", kControls, connection).c_str(), F_OK) == 0;
  const std::string mount = there ? "" : fmt::format("mount -t fusectl fusectl {}; ", kControls);
  return status_from_errno(
      number == ENOSYS ? EPERM : number,
      fmt::format("cannot abort FUSE connection {0}; run as root: {1}echo 1 > {2}/{0}/abort",
                  connection, mount, kControls));
}

Result<> abort_connection(unsigned connection) {
  const std::string name = fmt::format("{}/abort", connection);
  File control(::open(fmt::format("{}/{}", kControls, name).c_str(), O_WRONLY | O_CLOEXEC));
  if (!control) {
    const int failed = errno;
    const File controls = failed == ENOENT ? open_own_controls() : File();
    if (!controls) return error(abort_error(connection, failed == ENOENT ? errno : failed));
    control = File(::openat(controls.fd(), name.c_str(), O_WRONLY | O_CLOEXEC));
    if (!control && errno == ENOENT) return {};  // ended meanwhile
    if (!control) return error(abort_error(connection, errno));
  }
  if (::write(control.fd(), "1", 1) != 1) return error(abort_error(connection, errno));
  return {};
}

bool supervisor_alive(const RecordedConnections& record) {
  return record.supervisor.pid != 0 && state_of(record.supervisor) == ProcessState::kAlive;
}

}  // namespace

bool is_exiting_thread(std::string_view stat, std::string_view status) {
  const size_t name_end = stat.rfind(')');
  if (has_ended(stat)) return true;
  std::istringstream words{std::string(stat.substr(name_end + 1))};
  std::string skipped;
  uint64_t flags = 0;
  for (int field = 3; field < 9; ++field) words >> skipped;
  words >> flags;
  if ((flags & kPfExiting) != 0) return true;
  constexpr std::string_view kPending = "\nSigPnd:";
  const size_t pending = status.find(kPending);
  if (pending == std::string_view::npos) return false;
  uint64_t signals = 0;
  std::istringstream(std::string(status.substr(pending + kPending.size()))) >> std::hex >> signals;
  return (signals >> (SIGKILL - 1) & 1) != 0;
}

ProcessState state_of(const ProcessIdentity& process) {
  if (process.boot_id != this_boot()) return ProcessState::kExited;
  const fs::path proc = proc_of(process.pid);
  if (start_ticks_in(text_of(proc / "stat")) != process.start_ticks) return ProcessState::kExited;
  bool ending = true;
  size_t running = 0;
  for_each_in(proc / "task", [&](const fs::path& thread) {
    const std::string stat = text_of(thread / "stat");
    if (stat.empty()) return;  // ended meanwhile
    if (!has_ended(stat)) ++running;
    ending = ending && is_exiting_thread(stat, text_of(thread / "status"));
  });
  if (!ending) return ProcessState::kAlive;
  return running > 0 ? ProcessState::kExiting : ProcessState::kExited;
}

std::set<unsigned> connections_to_abort(const RecordedConnections& record,
                                        const std::set<unsigned>& held,
                                        const std::vector<MountinfoLine>& mounts) {
  std::set<unsigned> found;
  for (const MountinfoLine& mount : record.mounts) {
    const unsigned connection = connection_of(mount.device);
    if (connection != 0 && contains(mounts, mount)) found.insert(connection);
  }
  for (unsigned connection : held) {
    // The mount point is not compared: a mount may be bound elsewhere or unmounted lazily.
    const bool ours = std::ranges::all_of(mounts, [&](const MountinfoLine& mount) {
      if (connection_of(mount.device) != connection) return true;
      return std::ranges::any_of(record.mounts, [&](const MountinfoLine& recorded) {
        return recorded.device == mount.device && recorded.type == mount.type &&
               recorded.source == mount.source;
      });
    });
    if (ours) found.insert(connection);
  }
  return found;
}

std::optional<DeadConnections> DeadConnections::find(const std::string& record,
                                                     bool ignore_supervisor) {
  const std::string text = text_of(record);
  if (text.empty()) return std::nullopt;
  Result<RecordedConnections> parsed = parse_connections(text);
  if (!parsed || state_of(parsed->process) != ProcessState::kExiting) return std::nullopt;
  // A successor will answer the waiting requests.
  if (!ignore_supervisor && supervisor_alive(*parsed)) return std::nullopt;
  return DeadConnections(std::move(*parsed));
}

Result<> DeadConnections::abort() {
  const std::set<unsigned> connections = connections_to_abort(
      record_, connections_held(record_.process.pid), mounts_of_this_namespace());
  Result<> done;
  for (unsigned connection : connections) {
    Result<> aborted = abort_connection(connection);
    if (!aborted && done) done = std::move(aborted);
  }
  return done;
}

bool DeadConnections::wait_until_exited(std::chrono::milliseconds timeout) const {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (state_of(record_.process) == ProcessState::kExiting) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

void DeadConnections::unmount() {
  const std::vector<MountinfoLine> mounts = mounts_of_this_namespace();
  for (const MountinfoLine& mount : record_.mounts) {
    if (!contains(mounts, mount)) continue;
    Result<> gone = unmount_path(unescape_mount(mount.point), true);
    if (!gone) log::info("{}", gone.error().to_string());
  }
}

}  // namespace leat
