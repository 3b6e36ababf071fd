// SPDX-License-Identifier: Apache-2.0
// AtomicFile: a local file that appears under its name when it is complete, or never. Until then it
// has no name (O_TMPFILE), if the file system supports that. Otherwise it has a short name in the
// same directory. That file is removed with the object or by a signal that ends the process; only
// SIGKILL leaves it behind.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "model/file_info.h"
#include "runtime/disk.h"

namespace leat {

class AtomicFile {
 public:
  // `unnamed`: try O_TMPFILE first. Not only for tests: many network file systems lack it.
  static Result<AtomicFile> create(const std::string& path, bool unnamed = true);
  AtomicFile(AtomicFile&& other) noexcept;
  ~AtomicFile();

  Result<> write(std::span<const std::byte> data);
  // Sets the time that the file has from commit() on. Ignores a file system that does not store
  // it.
  void set_time(WallTime mtime);
  // Call when all bytes are on disk. Without `replace` an existing file stays: kExists.
  Result<> commit(bool replace);

 private:
  explicit AtomicFile(std::string path) : path_(std::move(path)) {}

  Result<> open_unnamed();
  Result<> open_named();
  Result<> finish_writing();
  // While the file has such a name, a signal that ends the process removes it.
  void create_temporary_name();
  void drop_temporary_name();

  std::string path_;
  std::unique_ptr<const std::string> temporary_;  // null: the file has no name
  File file_;
  std::optional<WallTime> mtime_;
};

// rename(2) that never replaces a file (kExists), even if the file system has no atomic operation
// for it.
Result<> rename_without_replacing(const std::string& from, const std::string& to);

}  // namespace leat
