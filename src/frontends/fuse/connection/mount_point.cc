// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/connection/mount_point.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <ranges>
#include <sstream>
#include <system_error>

#include "base/read_file.h"
#include "telemetry/log.h"

extern char** environ;

namespace leat {
namespace {

std::string reason(int number) {
  return std::generic_category().message(number);
}

Status busy(const std::string& mountpoint) {
  return {StatusCode::kBusy,
          fmt::format("{} is in use: close what is open there (fuser -vm {} lists it), or unmount "
                      "lazily",
                      mountpoint, mountpoint)};
}

// Runs fusermount3 and returns its error message; nothing on success.
std::optional<std::string> run_fusermount(const std::string& mountpoint, bool lazy) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return reason(errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<std::string> words = {"fusermount3", "-u"};
  if (lazy) words.emplace_back("-z");
  words.insert(words.end(), {"--", mountpoint});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string complaint;
  char part[256];
  for (ssize_t got; (got = ::read(ends[0], part, sizeof part)) > 0;) complaint.append(part, got);
  ::close(ends[0]);
  if (failed != 0) return "fusermount3: " + reason(failed);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::nullopt;
  while (complaint.ends_with('\n')) complaint.pop_back();
  return complaint.empty() ? "fusermount3 failed" : complaint;
}

}  // namespace

Result<std::string> resolve_mountpoint(const std::string& path) {
  char resolved[PATH_MAX];
  struct stat info;
  if (::realpath(path.c_str(), resolved) == nullptr || ::stat(resolved, &info) != 0) {
    if (errno == ENOENT) {
      return error(
          StatusCode::kNotFound,
          fmt::format("cannot mount at {}: there is no such directory; make it first", path));
    }
    if (errno == ENOTCONN) {
      return error(StatusCode::kBusy,
                   fmt::format("cannot mount at {}: the mount of a process that has died is still "
                               "there; unmount it first (umount {})",
                               path, path));
    }
    return error(status_from_errno(errno, "cannot mount at " + path));
  }
  if (!S_ISDIR(info.st_mode)) {
    return error(StatusCode::kNotDirectory,
                 fmt::format("cannot mount at {}: it is not a directory", path));
  }
  return std::string(resolved);
}

bool has_user_allow_other(std::string_view fuse_conf) {
  for (auto part : std::views::split(fuse_conf, '\n')) {
    std::string_view line(part.begin(), part.end());
    constexpr std::string_view kBlanks = " \t\r";
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    line = line.substr(0, line.find_last_not_of(kBlanks) + 1);
    if (line == "user_allow_other") return true;
  }
  return false;
}

Result<> unmount_path(const std::string& mountpoint, bool lazy) {
  const int flags = UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0);
  if (::umount2(mountpoint.c_str(), flags) == 0) return {};
  if (errno == EBUSY) return error(busy(mountpoint));
  if (errno == EINVAL || errno == ENOENT) {
    return error(StatusCode::kNotFound, "nothing is mounted at " + mountpoint + " any more");
  }
  if (errno != EPERM) return error(status_from_errno(errno, "cannot unmount " + mountpoint));
  const std::optional<std::string> complaint = run_fusermount(mountpoint, lazy);
  if (!complaint) return {};
  if (complaint->find("busy") != std::string::npos) return error(busy(mountpoint));
  return error(StatusCode::kPermissionDenied,
               fmt::format("cannot unmount {}: {}", mountpoint, *complaint));
}

void force_unmount_path(const std::string& mountpoint) {
  const int flags = UMOUNT_NOFOLLOW | MNT_FORCE | MNT_DETACH;
  if (::umount2(mountpoint.c_str(), flags) == 0) return;
  if (auto done = unmount_path(mountpoint, true); !done) {
    log::warning("{}; it will answer 'Transport endpoint is not connected' until it is unmounted",
                 done.error().to_string());
  }
}

std::string unescape_mount(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 3 >= text.size()) {
      plain += text[i];
      continue;
    }
    plain +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return plain;
}

std::vector<MountinfoLine> parse_mountinfo(std::string_view mountinfo) {
  // "36 35 98:0 /root /mount/point options optional… - type source super": proc_pid_mountinfo(5)
  std::vector<MountinfoLine> mounts;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, parent, root, word;
    MountinfoLine mount;
    words >> id >> parent >> mount.device >> root >> mount.point;
    while (words >> word && word != "-") {
    }
    words >> mount.type >> mount.source;
    if (!mount.point.empty()) mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::vector<MountinfoLine> mounts_of_this_namespace() {
  return parse_mountinfo(read_file("/proc/self/mountinfo").value_or(""));
}

std::string device_of_mount(const std::vector<MountinfoLine>& mounts, std::string_view mountpoint) {
  std::string found;
  for (const MountinfoLine& mount : mounts) {
    if (unescape_mount(mount.point) == mountpoint) found = mount.device;
  }
  return found;
}

Result<> set_read_ahead(const std::string& mountpoint, uint64_t bytes) {
  const std::string device = device_of_mount(mounts_of_this_namespace(), mountpoint);
  if (device.empty()) {
    return error(StatusCode::kNotFound, mountpoint + " is not in /proc/self/mountinfo");
  }
  const std::string path = fmt::format("/sys/class/bdi/{}/read_ahead_kb", device);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return error(status_from_errno(errno, "cannot open " + path));
  const std::string value = std::to_string(bytes / 1024);
  const ssize_t written = ::write(fd, value.data(), value.size());
  const int failed = errno;
  ::close(fd);
  if (written < 0) return error(status_from_errno(failed, "cannot write " + value + " to " + path));
  return {};
}

}  // namespace leat
