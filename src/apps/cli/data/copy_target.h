// SPDX-License-Identifier: Apache-2.0
// CopyTarget: the destination of a copy: local files, or a store that this process writes to
// itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apps/cli/client/path_tree.h"

namespace leat {

// A file to be written: its attributes and its bytes.
struct Incoming {
  const EntryView& entry;
  std::function<CommandResult<>(const ByteSink&)> read;
  // The source object, if known: a store that has it copies it by itself.
  std::optional<StoredObject> object{};
};

// Several threads may use it at once.
class CopyTarget {
 public:
  virtual ~CopyTarget() = default;

  // Returns a name for people.
  virtual std::string name_of(const std::string& path) const = 0;
  virtual std::string child(const std::string& parent, const std::string& name) const = 0;
  // Returns the existing entry with size and time; nothing if there is none.
  virtual CommandResult<std::optional<EntryView>> find(const std::string& path) = 0;
  // Returns whether the target can have empty directories.
  virtual bool has_directories() const = 0;
  // Creates the directory and those above it. No effect if it exists, or if the target has no
  // directories.
  virtual CommandResult<> make_directory(const std::string& path) = 0;
  // Writes all or nothing, with the time of the incoming file if the target can store it. kExists
  // unless `replace`.
  virtual CommandResult<> write(const Incoming& file, const std::string& path, bool replace) = 0;
  // Returns whether `there` equals `file`, judged by sizes and times without a read.
  virtual bool same(const EntryView& file, const EntryView& there) const = 0;
};

std::unique_ptr<CopyTarget> make_local_target();
// Paths are keys behind a '/'. kUnsupported for a read-only store.
CommandResult<std::unique_ptr<CopyTarget>> make_store_target(const StoreUrl& url);

}  // namespace leat
