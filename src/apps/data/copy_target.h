// SPDX-License-Identifier: Apache-2.0
// CopyTarget: where a copy goes: local files, or a store that this process writes to itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apps/client/path_tree.h"

namespace leat {

// A file that is to be written: what is known of it, and its bytes.
struct Incoming {
  const EntryView& entry;
  std::function<Attempt<>(const TakeBytes&)> read;
  // Where it is an object: a store that has it copies it by itself.
  std::optional<StoredObject> object{};
};

// May be used by several threads at once.
class CopyTarget {
 public:
  virtual ~CopyTarget() = default;

  // For people.
  virtual std::string name_of(const std::string& path) const = 0;
  virtual std::string child(const std::string& parent, const std::string& name) const = 0;
  // What is there, with size and time; nothing where there is nothing.
  virtual Attempt<std::optional<EntryView>> find(const std::string& path) = 0;
  // Whether a directory can be there with nothing in it.
  virtual bool keeps_directories() const = 0;
  // Also those above it; nothing happens where it is there, or where there is no such thing.
  virtual Attempt<> make_directory(const std::string& path) = 0;
  // All of it or nothing, with the time of the incoming file where the target can keep it. kExists
  // unless `replace`.
  virtual Attempt<> write(const Incoming& file, const std::string& path, bool replace) = 0;
  // Whether `there` is `file`, as far as can be told without reading them: sizes, and times.
  virtual bool same(const EntryView& file, const EntryView& there) const = 0;
};

std::unique_ptr<CopyTarget> make_local_target();
// Paths are keys behind a '/'. kUnsupported for a store that takes no changes.
Attempt<std::unique_ptr<CopyTarget>> make_store_target(const StoreUrl& url);

}  // namespace leat
