// SPDX-License-Identifier: Apache-2.0
// PosixAttributes: mode, owner and times of a file, as far as a store keeps them. Object stores
// keep them as metadata of the object, under the names that s3fs and rclone use.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "model/file_info.h"

namespace leat {

// The same for all names of a file.
struct FileIdentity {
  uint64_t file_system = 0, inode = 0;

  friend auto operator<=>(const FileIdentity&, const FileIdentity&) = default;
};

struct PosixAttributes {
  std::optional<mode_t> mode{};  // with its type: S_IFREG, S_IFLNK …
  std::optional<uid_t> uid{};
  std::optional<gid_t> gid{};
  std::optional<WallTime> atime{}, mtime{}, ctime{};
  // From a file system only; object stores do not keep these.
  std::optional<dev_t> device{};    // of a special file
  std::optional<uint64_t> links{};  // number of names
  std::optional<FileIdentity> file{};

  bool empty() const { return *this == PosixAttributes{}; }
  friend bool operator==(const PosixAttributes&, const PosixAttributes&) = default;
};

// Name -> value: `mode`, `uid` and `gid` as decimal numbers, `atime`, `mtime` and `ctime` as
// seconds since the epoch with a fraction.
using ObjectMetadata = std::map<std::string, std::string>;

ObjectMetadata to_metadata(const PosixAttributes& attributes);
// Ignores other names, and values that are none. Takes a mode in octal, too, as rclone writes it.
PosixAttributes from_metadata(const ObjectMetadata& metadata);

}  // namespace leat
