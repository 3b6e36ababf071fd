// SPDX-License-Identifier: Apache-2.0
#include "cache/directory/directory_move.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/units.h"
#include "cache/superblock.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// Content of a cache directory beside its superblock; "moving" marks an unfinished move.
constexpr std::array kFolders = {"segments", "files"};
constexpr std::array kSmallFiles = {"scrub",     "scrub.new", "superblock.new", "pools",
                                    "pools.new", "pools.bad", "probe",          "moving"};
// Moved too: it has the pins.
constexpr const char* kPolicies = "/pools";
constexpr size_t kStepBytes = 16 * kMiB;

using Listener = std::function<void(const MoveProgress&)>;

Error failed(int reason, const std::string& what) {
  return error(status_from_errno(reason, what));
}

Result<> remove_tree(const std::string& path) {
  std::error_code reason;
  fs::remove_all(path, reason);
  if (reason) return failed(reason.value(), "remove " + path);
  return {};
}

// Does not remove a directory: no file of ours with that name is one.
Result<> remove_file(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT || errno == EISDIR) return {};
  return failed(errno, "remove " + path);
}

Result<> remove_files(const std::string& directory, bool superblock_too) {
  // Removed first, so that the directory is no cache any more.
  if (superblock_too) LEAT_CHECK_OK(remove_file(directory + "/superblock"));
  for (const char* name : kFolders) LEAT_CHECK_OK(remove_tree(directory + "/" + name));
  for (const char* name : kSmallFiles) LEAT_CHECK_OK(remove_file(directory + "/" + name));
  return {};
}

// Returns the uuid of the cache being moved to that place, if any: 32 hexadecimal digits.
std::optional<std::string> move_mark(Disk& disk, const std::string& directory) {
  struct stat info;
  const std::string path = directory + "/moving";
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  Result<Buffer> content = disk.read_file(path, 64);
  if (!content) return std::nullopt;
  std::string uuid(reinterpret_cast<const char*>(content->data()), content->size());
  if (uuid.size() != 32 || !Id128::from_hex(uuid)) return std::nullopt;
  return uuid;
}

bool exists(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0;
}

void count_tree(const std::string& path, MoveProgress& sum) {
  std::error_code reason;
  for (fs::recursive_directory_iterator at(path, reason), end; !reason && at != end;
       at.increment(reason)) {
    struct stat info;
    if (lstat(at->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    ++sum.files_total;
    sum.bytes_total += static_cast<uint64_t>(info.st_blocks) * 512;
  }
}

Result<> copy_range(int from, int to, off_t begin, off_t end, const std::string& name) {
  std::vector<char> buffer;
  for (off_t at = begin; at < end;) {
    const size_t step = std::min(kStepBytes, static_cast<size_t>(end - at));
    off_t in = at, out = at;
    ssize_t moved = buffer.empty() ? copy_file_range(from, &in, to, &out, step, 0) : -1;
    if (moved <= 0) {
      // Not supported between these two, or by this kernel: copy with read and write.
      buffer.resize(kStepBytes);
      moved = pread(from, buffer.data(), step, at);
      if (moved < 0) return failed(errno, "read " + name);
      if (moved == 0) break;  // the file became shorter: its checksums will show it
      const ssize_t wrote = pwrite(to, buffer.data(), static_cast<size_t>(moved), at);
      if (wrote < 0) return failed(errno, "write " + name);
      moved = wrote;
    }
    at += moved;
  }
  return {};
}

// Preserves holes and the modification time, which is the object's age.
Result<> copy_one(const std::string& from, const std::string& to) {
  const File source(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!source) return failed(errno, "open " + from);
  const File target(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!target) return failed(errno, "create " + to);
  struct stat info;
  if (fstat(source.fd(), &info) != 0) return failed(errno, "stat " + from);
  if (ftruncate(target.fd(), info.st_size) != 0) return failed(errno, "set the size of " + to);
  for (off_t at = 0; at < info.st_size;) {
    const off_t begin = lseek(source.fd(), at, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) break;
    if (begin < 0) return failed(errno, "read " + from);
    off_t end = lseek(source.fd(), begin, SEEK_HOLE);
    if (end < 0) end = info.st_size;
    LEAT_CHECK_OK(copy_range(source.fd(), target.fd(), begin, end, to));
    at = end;
  }
  const std::array times = {info.st_atim, info.st_mtim};
  if (futimens(target.fd(), times.data()) != 0) return failed(errno, "set the time of " + to);
  return {};
}

Result<> copy_tree(const std::string& from, const std::string& to, MoveProgress& progress,
                   const Listener& listener) {
  std::error_code reason;
  fs::create_directories(to, reason);
  if (reason) return failed(reason.value(), "create " + to);
  for (fs::recursive_directory_iterator at(from, reason), end; !reason && at != end;
       at.increment(reason)) {
    const std::string target = to + "/" + fs::relative(at->path(), from).string();
    struct stat info;
    if (lstat(at->path().c_str(), &info) != 0) return failed(errno, "stat " + at->path().string());
    if (S_ISDIR(info.st_mode)) {
      if (mkdir(target.c_str(), 0700) != 0) return failed(errno, "create " + target);
    } else if (S_ISREG(info.st_mode)) {
      LEAT_CHECK_OK(copy_one(at->path(), target));
      ++progress.files_done;
      progress.bytes_done += static_cast<uint64_t>(info.st_blocks) * 512;
      listener(progress);
    }
  }
  if (reason) return failed(reason.value(), "list " + from);
  return {};
}

// Syncs that whole file system.
Result<> sync_all(const std::string& directory) {
  const File folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || syncfs(folder.fd()) != 0) return failed(errno, "sync " + directory);
  return {};
}

// Same as write_superblock, for callers without an executor.
Result<> write_superblock_now(Disk& disk, const std::string& directory, const Superblock& block) {
  const std::string name = directory + "/superblock";
  {
    LEAT_TRY(File file, disk.open(name + ".new", O_WRONLY | O_CREAT | O_TRUNC | O_SYNC, 0600));
    LEAT_CHECK_OK(disk.write_now(file.fd(), Bytes::copy_of(block.encode()), 0));
  }
  LEAT_CHECK_OK(disk.rename(name + ".new", name));
  return disk.sync_directory(directory);
}

// The directory to be moved, locked.
struct Origin {
  std::unique_ptr<DirectoryLock> lock = std::make_unique<DirectoryLock>();
  Superblock superblock;
};

Result<Origin> open_origin(Disk& disk, const std::string& from) {
  if (!exists(from + "/superblock")) {
    return error(StatusCode::kNotFound,
                 fmt::format("{} is no cache directory: it has no superblock", from));
  }
  Origin origin;
  LEAT_CHECK_OK(origin.lock->acquire(disk, from));
  LEAT_TRY(auto found, read_superblock(disk, from));
  if (!found) return error(StatusCode::kNotFound, fmt::format("{} is no cache directory", from));
  origin.superblock = *found;
  return origin;
}

// Returns true if all of it is there already, and only `from` has to be removed.
Result<bool> prepare_target(Disk& disk, const std::string& to, const Superblock& superblock) {
  const std::string mark = to + "/moving", uuid = superblock.uuid.to_hex();
  if (exists(to + "/superblock")) {
    LEAT_TRY(auto there, read_superblock(disk, to));
    if (there && there->uuid == superblock.uuid) return true;
    return error(StatusCode::kExists,
                 fmt::format("{0} is a cache directory already; 'leat cache format {0}' makes it "
                             "empty, but give a directory that is not there yet",
                             to));
  }
  if (const std::optional<std::string> whose = move_mark(disk, to)) {
    if (*whose == uuid) return false;
    return error(StatusCode::kExists,
                 fmt::format("another cache directory was being moved to {}; finish that, or "
                             "remove {}",
                             to, to));
  }
  LEAT_TRY(auto nothing, read_superblock(disk, to));  // kInvalidArgument if it is not empty
  static_cast<void>(nothing);
  LEAT_TRY(File file, disk.open(mark, O_WRONLY | O_CREAT | O_EXCL | O_SYNC, 0600));
  LEAT_CHECK_OK(disk.write_now(file.fd(), Bytes::copy_of(uuid), 0));
  return false;
}

// The content still at `from` counts, whatever an earlier attempt left at `to`.
Result<bool> rename_folder(const std::string& from, const std::string& to) {
  if (!exists(from)) return true;
  LEAT_CHECK_OK(remove_tree(to));
  if (::rename(from.c_str(), to.c_str()) == 0) return true;
  if (errno == EXDEV) return false;
  return failed(errno, fmt::format("move {} to {}", from, to));
}

Result<> check_space(Disk& disk, const std::string& to, uint64_t bytes) {
  LEAT_TRY(DiskUsage usage, disk.usage(to));
  if (usage.free_bytes >= bytes) return {};
  return error(StatusCode::kNoSpace,
               fmt::format("{} has {} free, and {} are to be moved; evict some with 'leat cache "
                           "evict', or give a larger disk",
                           to, format_bytes(usage.free_bytes), format_bytes(bytes)));
}

}  // namespace

Result<MoveProgress> move_cache_directory(Disk& disk, const std::string& from,
                                          const std::string& to, const Listener& listener) {
  std::error_code reason;
  if (fs::equivalent(from, to, reason)) {
    return error(StatusCode::kInvalidArgument, fmt::format("{} and {} are the same", from, to));
  }
  if ((to + "/").starts_with(from + "/") || (from + "/").starts_with(to + "/")) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("one of {} and {} lies in the other", from, to));
  }
  LEAT_TRY(Origin origin, open_origin(disk, from));
  DirectoryLock lock;
  LEAT_CHECK_OK(lock.acquire(disk, to));
  LEAT_TRY(bool is_there, prepare_target(disk, to, origin.superblock));
  MoveProgress progress;
  for (const char* name : kFolders) count_tree(from + "/" + name, progress);
  if (!is_there) {
    bool renamed = true;
    for (const char* name : kFolders) {
      if (!renamed) break;
      LEAT_TRY(renamed, rename_folder(from + "/" + name, to + "/" + name));
    }
    if (!renamed) {
      // Copies of an earlier attempt are useless and in the way; renamed folders are not.
      for (const char* name : kFolders) {
        if (!exists(from + "/" + name)) continue;
        LEAT_CHECK_OK(remove_tree(to + "/" + name));
      }
      LEAT_CHECK_OK(check_space(disk, to, progress.bytes_total));
      // Checksums must decide what the copy contains.
      origin.superblock.clean = false;
      for (const char* name : kFolders) {
        if (!exists(from + "/" + name)) continue;
        LEAT_CHECK_OK(copy_tree(from + "/" + name, to + "/" + name, progress, listener));
      }
    }
    LEAT_CHECK_OK(remove_file(to + kPolicies));
    if (exists(from + kPolicies)) LEAT_CHECK_OK(copy_one(from + kPolicies, to + kPolicies));
    LEAT_CHECK_OK(sync_all(to));
    LEAT_CHECK_OK(write_superblock_now(disk, to, origin.superblock));
  }
  LEAT_CHECK_OK(remove_files(from, true));
  LEAT_CHECK_OK(remove_file(to + "/moving"));
  progress.bytes_done = progress.bytes_total;
  progress.files_done = progress.files_total;
  LEAT_CHECK_OK(remove_file(from + "/lock"));
  ::rmdir(from.c_str());  // remains if others put files into it
  return progress;
}

Result<MoveProgress> measure_cache_directory(Disk& disk, const std::string& path) {
  MoveProgress sum;
  if (!exists(path)) return sum;
  Result<std::optional<Superblock>> found = read_superblock(disk, path);
  const bool other = !found && found.error().code() != StatusCode::kCorrupt &&
                     found.error().code() != StatusCode::kUnsupported;
  if (other && !move_mark(disk, path)) return error(found.error());
  for (const char* name : kFolders) count_tree(path + "/" + name, sum);
  return sum;
}

Result<> clear_cache_directory(Disk& disk, const std::string& path) {
  LEAT_TRY(MoveProgress held, measure_cache_directory(disk, path));
  static_cast<void>(held);
  DirectoryLock lock;
  LEAT_CHECK_OK(lock.acquire(disk, path));
  return remove_files(path, true);
}

}  // namespace leat
