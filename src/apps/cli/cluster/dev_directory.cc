// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/cluster/dev_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <ranges>
#include <string_view>

#include "apps/cli/cluster/secret_files.h"
#include "auth/cluster_secret.h"
#include "base/id128.h"
#include "base/read_file.h"
#include "config/paths.h"
#include "frontends/fuse/connection/mount_point.h"
#include "model/mount_entry.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOptions = R"(# Options of each daemon of this cluster, read when it starts.
[cache]
size = "1GiB"
[fetch]
memory_size = "256MiB"
[telemetry]
listen = "127.0.0.1:0"
)";

constexpr size_t kLocalPathsBytesMax = 1024 * 1024;

bool is_there(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

}  // namespace

Result<DevDirectory> DevDirectory::open(const std::string& path) {
  DevDirectory taken;
  LEAT_CHECK_OK(taken.make(path));
  Result<> ready = taken.lock();
  if (ready) ready = taken.fill();
  if (ready) return taken;
  static_cast<void>(taken.remove_if_temporary());
  return Error(ready.error());
}

Result<> DevDirectory::make(const std::string& path) {
  if (path.empty()) {
    const char* where = std::getenv("TMPDIR");
    std::string made = fmt::format("{}/leat-dev-XXXXXX", where == nullptr ? "/tmp" : where);
    if (::mkdtemp(made.data()) == nullptr) {
      return error(status_from_errno(errno, "cannot make a directory " + made));
    }
    path_ = absolute_path(made);
    temporary_ = true;
    return {};
  }
  path_ = absolute_path(path);
  std::error_code failed;
  fs::create_directories(path_, failed);
  if (failed) return error(status_from_errno(failed.value(), "cannot make " + path_));
  return {};
}

Result<> DevDirectory::lock() {
  lock_ = File(::open((path_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_) return error(status_from_errno(errno, "cannot write in " + path_));
  if (::flock(lock_.fd(), LOCK_EX | LOCK_NB) == 0) return {};
  return error(StatusCode::kBusy,
               fmt::format("another cluster runs in {}; end it, or name another directory", path_));
}

Result<> DevDirectory::fill() const {
  if (!is_there(secret())) LEAT_CHECK_OK(write_secret_file(secret(), make_secret()));
  if (!is_there(token())) {
    Result<TokenClaims> made = write_token(token(), {.secret_file = secret(), .principal = "dev"});
    if (!made) return Error(made.error());
  }
  if (!is_there(options())) LEAT_CHECK_OK(write_secret_file(options(), kOptions));
  if (is_there(password())) return {};
  return write_secret_file(password(), Id128::random().to_hex() + Id128::random().to_hex() + "\n");
}

Result<std::string> DevDirectory::local_paths(const std::string& folder) const {
  const std::string file = path_ + "/local_paths";
  std::string paths;
  if (is_there(file)) {
    LEAT_TRY(paths, read_file(file, kLocalPathsBytesMax));
  }
  if (folder.empty()) return paths;
  if (folder.contains(',')) {
    return error(
        StatusCode::kInvalidArgument,
        fmt::format("{} has a comma, and worker.local_paths names no such folder", folder));
  }
  for (auto part : std::views::split(paths, ',')) {
    if (std::string_view(part.begin(), part.end()) == folder) return paths;
  }
  paths += paths.empty() ? folder : "," + folder;
  std::error_code ignored;
  fs::remove(file, ignored);
  LEAT_CHECK_OK(write_secret_file(file, paths));
  return paths;
}

Result<> DevDirectory::remove_if_temporary() {
  if (!temporary_) return {};
  for (const MountinfoLine& mount : mounts_of_this_namespace()) {
    const std::string point = unescape_mount(mount.point);
    if (!is_at_or_below(point, path_)) continue;
    return error(StatusCode::kBusy,
                 fmt::format("{} is mounted, so {} is not removed", point, path_));
  }
  std::error_code failed;
  fs::remove_all(path_, failed);
  if (failed) return error(status_from_errno(failed.value(), "cannot remove " + path_));
  return {};
}

}  // namespace leat
