// SPDX-License-Identifier: Apache-2.0
// CheckedFile: a file opened in one version and compared with that version after each read. Calls
// block, and may hang on a network file system.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "model/version.h"
#include "runtime/disk.h"

namespace leat {

// Returns kUnsupported if `key` has an empty, "." or ".." component: the kernel would resolve it,
// and one file would have many keys.
Result<> check_file_key(std::string_view key);

struct CheckedFile {
  File file;  // O_RDONLY
  std::string path;
  Version version;
  uint64_t size = 0;
  bool local = false;  // on a local disk of this host: its reads always end

  // Returns kVersionChanged if the file is not `if_version` (where that is set), kNotFound if it is
  // not a regular file.
  static Result<CheckedFile> open(const std::string& key, const Version& if_version);

  // Returns kOutOfRange if the file is shorter than `offset` + `bytes`.
  Result<> check_range(uint64_t offset, uint64_t bytes) const;
  // Returns kVersionChanged if the file no longer has the version that was opened. Call it after a
  // read: a writer changes the times before the bytes, so a reader that got new bytes sees new
  // times. Never waits for a local file: the inode of an open file is in memory.
  Result<> check_unchanged() const;
  Status became_shorter() const;
};

}  // namespace leat
