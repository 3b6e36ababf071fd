// SPDX-License-Identifier: Apache-2.0
// The part of cache_findings.h that inspects the host.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "cache/superblock.h"
#include "doctor/cache_findings.h"
#include "doctor/host_paths.h"
#include "model/mount_entry.h"
#include "runtime/executor.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// Further files are not counted: the cached bytes are unknown then.
constexpr size_t kCountedFilesMax = 200'000;

// Returns `directory`, or its nearest existing parent.
std::string nearest_existing(std::string directory) {
  struct stat info{};
  while (::lstat(directory.c_str(), &info) != 0 && errno == ENOENT && directory != "/") {
    directory = fs::path(directory).parent_path();
  }
  return directory;
}

std::string trouble_with(const std::string& ground, bool exists) {
  struct stat info{};
  if (::stat(ground.c_str(), &info) != 0) {
    return status_from_errno(errno, "it cannot be inspected").message();
  }
  if (!S_ISDIR(info.st_mode)) return fmt::format("{} is not a directory", ground);
  if (::access(ground.c_str(), W_OK | X_OK) == 0) return "";
  return status_from_errno(errno, exists ? "it cannot be written to"
                                         : fmt::format("it cannot be made in {}", ground))
      .message();
}

// Returns the holder of the cache; empty if there is none. Takes the lock and releases it at once,
// so a daemon that starts at that moment may be denied. Only if the lock file exists.
std::string holder_of(const std::string& directory) {
  const std::string path = directory + "/lock";
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::flock(file.fd(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return "";
  const std::string pid = first_line(path);
  return "process " + (pid.empty() ? "(unknown)" : pid);
}

// Returns the daemon's error for a directory that is not a cache, is damaged, or has a newer
// version.
std::string rejection_of(const std::string& directory) {
  Executor executor({.threads = 1, .blocking_threads = 1});
  Result<std::optional<Superblock>> block = read_superblock(*make_disk(executor), directory);
  return block ? "" : block.error().message();
}

std::optional<uint64_t> disk_bytes_below(const std::string& directory) {
  uint64_t bytes = 0;
  size_t files = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(directory, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    struct stat info{};
    if (++files > kCountedFilesMax) return std::nullopt;
    if (::lstat(entry->path().c_str(), &info) == 0) {
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    }
  }
  if (failed) return std::nullopt;
  return bytes;
}

// Without O_TMPFILE it creates a named file and unlinks it at once.
File make_sample(const std::string& ground) {
  File file(::open(ground.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  std::string path = ground + "/.leat-doctor-XXXXXX";
  file = File(::mkostemp(path.data(), O_CLOEXEC));
  if (file) ::unlink(path.c_str());
  return file;
}

// Opens a second file description, like the page store.
bool takes_direct_io(int fd) {
  const std::string self = fmt::format("/proc/self/fd/{}", fd);
  return static_cast<bool>(File(::open(self.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC)));
}

std::string find_trouble(const CacheFacts& facts, const std::string& ground) {
  if (std::string trouble = trouble_with(ground, facts.exists); !trouble.empty()) return trouble;
  if (!facts.exists || facts.in_use) return "";
  if (std::string holder = holder_of(facts.directory); !holder.empty()) {
    return fmt::format("in use by {}", holder);
  }
  return rejection_of(facts.directory);
}

}  // namespace

std::string file_system_of(const std::string& path, const std::vector<MountinfoLine>& mounts) {
  std::string type;
  size_t longest = 0;
  for (const MountinfoLine& mount : mounts) {
    const std::string point = unescape_mount(mount.point);
    // The later of two mounts at one path hides the earlier one.
    if (point.size() < longest || !is_at_or_below(path, point)) continue;
    longest = point.size();
    type = mount.type;
  }
  return type;
}

CacheInspection inspect_cache(const PageStoreOptions& options,
                              const std::vector<MountinfoLine>& mounts,
                              std::optional<uint64_t> used_bytes_of_daemon) {
  CacheInspection made;
  CacheFacts& facts = made.facts;
  facts.directory = options.directory;
  facts.capacity_bytes = options.capacity_bytes;
  facts.free_bytes_min = options.free_bytes_min;
  facts.in_use = used_bytes_of_daemon.has_value();
  const std::string ground = nearest_existing(options.directory);
  facts.exists = ground == options.directory;
  facts.trouble = find_trouble(facts, ground);
  std::error_code failed;
  fs::path resolved = fs::canonical(ground, failed);
  facts.file_system = file_system_of(failed ? ground : resolved.string(), mounts);
  Executor executor({.threads = 1, .blocking_threads = 1});
  if (auto usage = make_disk(executor)->usage(ground)) facts.usage = *usage;
  if (!facts.trouble.empty()) return made;
  facts.used_bytes = used_bytes_of_daemon;
  if (!facts.in_use) facts.used_bytes = facts.exists ? disk_bytes_below(facts.directory) : 0;
  made.sample = make_sample(ground);
  if (made.sample) {
    facts.direct_io = takes_direct_io(made.sample.fd());
  } else {
    facts.trouble = status_from_errno(errno, "no file can be made in it").message();
  }
  return made;
}

}  // namespace leat
