// SPDX-License-Identifier: Apache-2.0
// NewFile: a local file that appears under its name when it is whole, or never. Until then it has
// no name where the file system can do that (O_TMPFILE), else a short one beside its place, which
// goes when the object or the process ends; only SIGKILL leaves it behind.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "model/file_info.h"
#include "runtime/disk.h"

namespace leat {

class NewFile {
 public:
  // `unnamed`: tried first. Not for tests only: it is what many network file systems lack.
  static Result<NewFile> create(const std::string& path, bool unnamed = true);
  NewFile(NewFile&& other) noexcept;
  ~NewFile();

  Result<> write(std::span<const std::byte> data);
  // That it has from publish() on. What the file system does not keep is no failure.
  void set_time(WallTime mtime);
  // When everything is on the disk. Without `replace` a file that is there stays: kExists.
  Result<> publish(bool replace);

 private:
  explicit NewFile(std::string path) : path_(std::move(path)) {}

  Result<> open_unnamed();
  Result<> open_named();
  Result<> finish_writing();
  // A signal that ends the process takes the file away while it has such a name.
  void take_temporary_name();
  void forget_temporary_name();

  std::string path_;
  std::unique_ptr<const std::string> temporary_;  // null: it has no name
  File file_;
  std::optional<WallTime> mtime_;
};

// rename(2) that replaces nothing (kExists), also where the file system cannot do that in one step.
Result<> rename_without_replacing(const std::string& from, const std::string& to);

}  // namespace leat
