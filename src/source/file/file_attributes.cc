// SPDX-License-Identifier: Apache-2.0
#include "source/file/file_attributes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "model/timespec.h"
#include "runtime/disk.h"
#include "source/file/file_listing.h"

namespace leat {
namespace {

constexpr std::string_view kUserPrefix = "user.";

timespec timespec_of(const std::optional<WallTime>& time) {
  if (!time) return {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
  return to_timespec(*time);
}

}  // namespace

// The mode comes last, since a change of the owner clears bits of it.
Result<> apply_attributes(int fd, const PosixAttributes& wanted, bool owner_must,
                          const std::string& path) {
  const uid_t uid = wanted.uid.value_or(static_cast<uid_t>(-1));
  const gid_t gid = wanted.gid.value_or(static_cast<gid_t>(-1));
  if ((wanted.uid || wanted.gid) && fchown(fd, uid, gid) != 0 && (owner_must || errno != EPERM)) {
    return Error(status_from_errno(errno, "cannot set the owner of " + path));
  }
  if (wanted.mode && fchmod(fd, *wanted.mode & 07777) != 0) {
    return Error(status_from_errno(errno, "cannot set the mode of " + path));
  }
  const timespec times[] = {timespec_of(wanted.atime), timespec_of(wanted.mtime)};
  if ((wanted.atime || wanted.mtime) && futimens(fd, times) != 0) {
    return Error(status_from_errno(errno, "cannot set the times of " + path));
  }
  return {};
}

// A descriptor without access rights names one file, whatever replaces it, and opens no device.
Result<> apply_attributes_to_name(const std::string& path, const PosixAttributes& wanted,
                                  bool owner_must) {
  const File file(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!file || fstat(file.fd(), &info) != 0) {
    return Error(status_from_errno(errno, "cannot set attributes of " + path));
  }
  const std::string self = fmt::format("/proc/self/fd/{}", file.fd());
  const uid_t uid = wanted.uid.value_or(static_cast<uid_t>(-1));
  const gid_t gid = wanted.gid.value_or(static_cast<gid_t>(-1));
  if ((wanted.uid || wanted.gid) && fchownat(file.fd(), "", uid, gid, AT_EMPTY_PATH) != 0 &&
      (owner_must || errno != EPERM)) {
    return Error(status_from_errno(errno, "cannot set the owner of " + path));
  }
  const bool is_link = S_ISLNK(info.st_mode);  // its mode never changes
  if (wanted.mode && !is_link && chmod(self.c_str(), *wanted.mode & 07777) != 0) {
    return Error(status_from_errno(errno, "cannot set the mode of " + path));
  }
  const timespec times[] = {timespec_of(wanted.atime), timespec_of(wanted.mtime)};
  const int done = is_link ? utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW)
                           : utimensat(AT_FDCWD, self.c_str(), times, 0);
  if ((wanted.atime || wanted.mtime) && done != 0) {
    return Error(status_from_errno(errno, "cannot set the times of " + path));
  }
  return {};
}

Result<SourceObject> set_attributes_of(const AttributesRequest& request, FileAccess access,
                                       const std::string& root) {
  LEAT_CHECK_OK(stat_file(request.key, access, root));
  std::string path = path_of_key(request.key);
  if (access == FileAccess::kExact && !request.key.ends_with('/')) {
    LEAT_CHECK_OK(apply_attributes_to_name(path, request.attributes, /*owner_must=*/true));
    return stat_file(request.key, access);
  }
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return Error(status_from_errno(errno, "cannot set attributes of " + path));
  LEAT_CHECK_OK(apply_attributes(file.fd(), request.attributes, /*owner_must=*/true, path));
  return stat_file(request.key, access, root);
}

Result<> copy_user_attributes(const std::string& path, int fd) {
  const ssize_t size = llistxattr(path.c_str(), nullptr, 0);
  if (size <= 0) return {};
  std::string names(static_cast<size_t>(size), '\0');
  const ssize_t got = llistxattr(path.c_str(), names.data(), names.size());
  if (got < 0) return Error(status_from_errno(errno, "cannot list the attributes of " + path));
  names.resize(static_cast<size_t>(got));
  for (size_t at = 0; at < names.size();) {
    const std::string name = names.c_str() + at;
    at += name.size() + 1;
    if (!name.starts_with(kUserPrefix)) continue;
    std::vector<char> value(XATTR_SIZE_MAX);
    const ssize_t bytes = lgetxattr(path.c_str(), name.c_str(), value.data(), value.size());
    if (bytes < 0 && errno == ENODATA) continue;
    if (bytes < 0 ||
        fsetxattr(fd, name.c_str(), value.data(), static_cast<size_t>(bytes), 0) != 0) {
      return Error(status_from_errno(errno, fmt::format("cannot copy {} of {}", name, path)));
    }
  }
  return {};
}

Result<> sync_directory(const std::string& path) {
  File directory(open((path + "/").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || fsync(directory.fd()) != 0) {
    return Error(status_from_errno(errno, "cannot sync the directory " + path));
  }
  return {};
}

}  // namespace leat
