// SPDX-License-Identifier: Apache-2.0
#include "source/file/checked_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "source/file/file_listing.h"
#include "source/file/file_system_type.h"

namespace leat {
namespace {

Result<struct stat> stat_open(const File& file, const std::string& path) {
  struct stat info;
  if (::fstat(file.fd(), &info) != 0) {
    return Error(status_from_errno(errno, "cannot stat " + path));
  }
  if (!S_ISREG(info.st_mode)) {
    return error(StatusCode::kNotFound, fmt::format("cannot read {}: it is not a file", path));
  }
  return info;
}

Error changed(const std::string& path, const Version& now, const Version& wanted) {
  return error(StatusCode::kVersionChanged,
               fmt::format("cannot read {}: it is {} now, not {} any more; open it again", path,
                           now.to_string(), wanted.to_string()));
}

}  // namespace

Result<> check_file_key(std::string_view key) {
  while (!key.empty()) {
    std::string_view part = key.substr(0, key.find('/'));
    if (part.empty() || part == "." || part == ".." || part.contains('\0')) {
      return error(
          StatusCode::kUnsupported,
          fmt::format("'{}' is not a key of file://: it has an empty, '.' or '..' component", key));
    }
    key.remove_prefix(std::min(key.size(), part.size() + 1));
  }
  return {};
}

Result<CheckedFile> CheckedFile::open(const std::string& key, const Version& if_version) {
  LEAT_CHECK_OK(check_file_key(key));
  CheckedFile opened;
  opened.path = path_of_key(key);
  // O_NONBLOCK: opening a FIFO would wait for a writer.
  opened.file = File(::open(opened.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!opened.file) {
    const int reason = errno == ENOTDIR ? ENOENT : errno;
    return Error(status_from_errno(reason, "cannot read " + opened.path));
  }
  LEAT_TRY(struct stat info, stat_open(opened.file, opened.path));
  opened.version = version_of_stat(info);
  opened.size = static_cast<uint64_t>(info.st_size);
  if (if_version.known() && opened.version != if_version) {
    return changed(opened.path, opened.version, if_version);
  }
  opened.local = is_on_local_disk(opened.file.fd(), info.st_dev);
  return opened;
}

Result<> CheckedFile::check_range(uint64_t offset, uint64_t bytes) const {
  if (offset <= size && bytes <= size - offset) return {};
  return error(StatusCode::kOutOfRange,
               fmt::format("cannot read {} bytes at {} of {}: it has only {} bytes", bytes, offset,
                           path, size));
}

Result<> CheckedFile::check_unchanged() const {
  LEAT_TRY(struct stat info, stat_open(file, path));
  const Version now = version_of_stat(info);
  if (now != version) return changed(path, now, version);
  return {};
}

Status CheckedFile::became_shorter() const {
  return {StatusCode::kVersionChanged,
          fmt::format("cannot read {}: it became shorter while it was read", path)};
}

}  // namespace leat
