// SPDX-License-Identifier: Apache-2.0
// PathTree: names and bytes of a PATH argument: in the daemon's namespace, or in a store that this
// process accesses itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "apps/cli/command/command.h"
#include "model/file_ref.h"
#include "model/store_url.h"

namespace leat {

using EntryCallback = std::function<CommandResult<>(const EntryView&)>;
// Receives pieces in order. An error ends the read and is its result.
using ByteSink = std::function<Result<>(std::span<const std::byte>)>;

// The object behind a path, if a tree knows it.
struct StoredObject {
  StoreId store;
  std::string key;
};

// Several threads may use it at once.
class PathTree {
 public:
  virtual ~PathTree() = default;
  virtual std::optional<StoredObject> object_at(const std::string& path) const {
    static_cast<void>(path);
    return std::nullopt;  // only the daemon knows the object
  }
  // If a store has an object and a prefix of one name, `prefix_first` selects. The namespace shows
  // the prefix.
  virtual CommandResult<StatView> stat(const std::string& path, bool prefix_first = false) = 0;
  // Lists one level, sorted by name; a file yields itself. `cached`: with the cached bytes. Returns
  // the number of names that were skipped because they cannot be shown.
  virtual CommandResult<uint64_t> list(const std::string& path, bool cached,
                                       const EntryCallback& each) = 0;
  // Reads at most `size` bytes from `offset`. kOutOfRange beyond the end, kIsDirectory.
  virtual CommandResult<> read(const std::string& path, uint64_t offset, uint64_t size,
                               const ByteSink& sink) = 0;
};

struct Target {
  std::unique_ptr<PathTree> tree;
  std::string path;  // within the tree; children are path + '/' + name
};

// Opens the tree that `argument` names: a URL is a store, all else a path of the daemon.
CommandResult<Target> open_target(const std::string& argument);

// Returns whether `path`, absolute, is at or below a mount; false if no daemon runs.
bool is_in_namespace(const std::string& path);

std::string child_path(const std::string& parent, const std::string& name);

std::unique_ptr<PathTree> make_daemon_tree();
// Opens the store of `url`, with the URL's options. Paths in it are keys after a '/'.
CommandResult<std::unique_ptr<PathTree>> make_store_tree(const StoreUrl& url);

}  // namespace leat
