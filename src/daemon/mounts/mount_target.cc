// SPDX-License-Identifier: Apache-2.0
#include "daemon/mounts/mount_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "config/paths.h"
#include "frontends/fuse/connection/mount_point.h"
#include "model/mount_entry.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHoldersShown = 5;

std::string link_target(const fs::path& link) {
  std::error_code failed;
  std::string target = fs::read_symlink(link, failed);
  return failed ? "" : target;
}

std::string process_name(const fs::path& process) {
  std::ifstream file(process / "comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// Returns what `process` has open below `path`, or nothing. Reads links and never follows them: a
// stat would send a request to the folder itself.
std::optional<std::string> held_by(const fs::path& process, const std::string& path) {
  if (is_at_or_below(link_target(process / "cwd"), path)) return "working directory";
  if (is_at_or_below(link_target(process / "root"), path)) return "root directory";
  std::error_code failed;
  for (fs::directory_iterator fd(process / "fd", failed), end; !failed && fd != end;
       fd.increment(failed)) {
    std::string target = link_target(fd->path());
    if (is_at_or_below(target, path))
      return target.substr(std::min(target.size(), path.size() + 1));
  }
  return std::nullopt;
}

}  // namespace

Result<bool> remove_dead_mount(const std::string& path) {
  // The kernel may cache what stat(2) returns; statvfs(2) always reaches the daemon.
  struct statvfs found{};
  if (statvfs(path.c_str(), &found) == 0) return false;
  if (errno != ENOTCONN && errno != ECONNABORTED) return false;  // ended, or about to end
  LEAT_CHECK_OK(unmount_path(path, true));
  return true;
}

Result<bool> prepare_mount_target(const std::string& path) {
  LEAT_TRY(bool dead, remove_dead_mount(path));
  struct stat found{};
  if (stat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) {
      return error(StatusCode::kNotFound,
                   fmt::format("cannot mount at {0}: there is no such directory; make it with "
                               "'mkdir -p {0}'",
                               path));
    }
    return error(status_from_errno(errno, "cannot mount at " + path));
  }
  if (!S_ISDIR(found.st_mode)) {
    return error(StatusCode::kNotDirectory,
                 fmt::format("cannot mount at {}: it is a file; name a directory", path));
  }
  return dead;
}

Result<> check_apart(const StoreUrl& source, const std::string& path) {
  if (source.scheme != "file") return {};
  std::string from = absolute_path("/" + source.prefix);
  std::string to = absolute_path(path);
  if (is_at_or_below(to, from)) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("{} lies in its own source {}, so the folder would contain itself; "
                             "choose a mount point outside of the source",
                             to, from));
  }
  if (is_at_or_below(from, to)) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("the folder at {} would hide its own source {}; choose another mount "
                             "point",
                             to, from));
  }
  return {};
}

std::string describe_holders(const std::string& path) {
  std::vector<std::string> holders;
  std::error_code failed;
  for (fs::directory_iterator process("/proc", failed), end; !failed && process != end;
       process.increment(failed)) {
    std::string pid = process->path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    auto what = held_by(process->path(), path);
    if (!what) continue;
    holders.push_back(fmt::format("pid {} ({}: {})", pid, process_name(process->path()), *what));
    if (holders.size() == kHoldersShown) break;
  }
  return fmt::format("{}", fmt::join(holders, ", "));
}

}  // namespace leat
