// SPDX-License-Identifier: Apache-2.0
#include "config/paths.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace leat {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no thread sets it
  return value == nullptr ? "" : value;
}

// Returns $XDG_…, or its default below the home directory; empty if there is neither.
std::string user_directory(const char* variable, const char* below_home) {
  std::string given = environment(variable);
  if (given.starts_with('/')) return given;
  std::string home = environment("HOME");
  return home.empty() ? "" : fmt::format("{}/{}", home, below_home);
}

}  // namespace

std::string runtime_directory() {
  std::string given = environment("LEAT_RUNTIME_DIR");
  if (!given.empty()) return fs::absolute(given).lexically_normal();
  if (geteuid() == 0) return "/run/leat";
  std::string user = environment("XDG_RUNTIME_DIR");
  return user.empty() ? fmt::format("/tmp/leat-{}", geteuid()) : user + "/leat";
}

Result<> check_runtime_directory(const std::string& path) {
  struct stat found{};
  if (lstat(path.c_str(), &found) != 0) {
    return error(status_from_errno(errno, "cannot use the runtime directory " + path));
  }
  if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid()) {
    return error(StatusCode::kPermissionDenied,
                 fmt::format("the runtime directory {} is not a directory of this user; remove it "
                             "or name another in LEAT_RUNTIME_DIR",
                             path));
  }
  if ((found.st_mode & 022) != 0) {
    return error(StatusCode::kPermissionDenied,
                 fmt::format("others may write to the runtime directory {0}; 'chmod 700 {0}', or "
                             "name another in LEAT_RUNTIME_DIR",
                             path));
  }
  return {};
}

Result<> make_runtime_directory(const std::string& path) {
  std::error_code failed;
  fs::create_directories(fs::path(path).parent_path(), failed);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return error(status_from_errno(
        errno, fmt::format("cannot make the runtime directory {} (LEAT_RUNTIME_DIR names another)",
                           path)));
  }
  return check_runtime_directory(path);
}

std::string control_socket(const std::string& runtime) {
  return runtime + "/control.sock";
}
std::string daemon_log(const std::string& runtime) {
  return runtime + "/daemon.log";
}
std::string pid_file(const std::string& runtime) {
  return runtime + "/daemon.pid";
}
std::string job_journal(const std::string& runtime) {
  return runtime + "/daemon.jobs";
}

std::string connection_record(const std::string& runtime) {
  return runtime + "/daemon.mounts";
}

std::string default_cache_directory() {
  if (geteuid() == 0) return "/var/cache/leat";
  std::string user = user_directory("XDG_CACHE_HOME", ".cache");
  return user.empty() ? fmt::format("/tmp/leat-cache-{}", geteuid()) : user + "/leat";
}

std::string default_snapshot_directory() {
  if (geteuid() == 0) return "/var/lib/leat/snapshots";
  std::string user = user_directory("XDG_DATA_HOME", ".local/share");
  if (user.empty()) return fmt::format("/tmp/leat-snapshots-{}", geteuid());
  return user + "/leat/snapshots";
}

std::string default_config_file() {
  std::string user = user_directory("XDG_CONFIG_HOME", ".config");
  if (!user.empty()) user += "/leat/leat.toml";
  for (const std::string& file : {user, std::string("/etc/leat/leat.toml")}) {
    if (!file.empty() && access(file.c_str(), F_OK) == 0) return file;
  }
  return "";
}

std::string absolute_path(const std::string& path) {
  std::error_code failed;
  fs::path whole = fs::absolute(path, failed);
  fs::path resolved = fs::weakly_canonical(whole, failed);
  std::string text = failed ? whole.lexically_normal() : resolved.lexically_normal();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

}  // namespace leat
