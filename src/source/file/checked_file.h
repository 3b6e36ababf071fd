// SPDX-License-Identifier: Apache-2.0
// CheckedFile: a file opened in one version, which is compared again after each read. What a call
// here does blocks, and on a network file system it may hang.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "model/version.h"
#include "runtime/disk.h"

namespace leat {

// The kernel would resolve empty, "." and ".." components, and one file would have many keys:
// kUnsupported.
Result<> check_file_key(std::string_view key);

struct CheckedFile {
  File file;  // O_RDONLY
  std::string path;
  Version version;
  uint64_t size = 0;
  bool local = false;  // on this host's own disks: reads of it end

  // kChanged unless it is `if_version` (if that is known), kNotFound unless it is a file.
  static Result<CheckedFile> open(const std::string& key, const Version& if_version);

  // kOutOfRange when the file is shorter than `offset` + `bytes`.
  Result<> check_range(uint64_t offset, uint64_t bytes) const;
  // kChanged when it is not the version any more that was opened. After a read: a writer changes
  // the times before the bytes, so whoever saw new bytes sees new times. Does not wait for a local
  // file, whose inode is in memory while it is open.
  Result<> check_unchanged() const;
  Status became_shorter() const;
};

}  // namespace leat
