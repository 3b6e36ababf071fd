// SPDX-License-Identifier: Apache-2.0
// PathTree: names and bytes behind a PATH argument, wherever they are: the daemon's namespace, or a
// store that this process asks itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "apps/command.h"
#include "model/file_ref.h"
#include "model/store_url.h"

namespace leat {

using EachEntry = std::function<Attempt<>(const EntryView&)>;
// Pieces in order; an error ends the read with it.
using TakeBytes = std::function<Result<>(std::span<const std::byte>)>;

// An object, where a tree knows which one a path is.
struct StoredObject {
  StoreId store;
  std::string key;
};

// May be used by several threads at once.
class PathTree {
 public:
  virtual ~PathTree() = default;
  virtual std::optional<StoredObject> object_at(const std::string& path) const {
    static_cast<void>(path);
    return std::nullopt;  // the daemon's business
  }
  // Where a store has an object and a prefix of one name, `prefix_first` says which is meant; the
  // namespace shows the prefix.
  virtual Attempt<StatView> stat(const std::string& path, bool prefix_first = false) = 0;
  // One level, sorted by name; a file yields itself. `cached`: say also what is in the cache.
  // Answers how many names there are that cannot be shown and were left out.
  virtual Attempt<uint64_t> list(const std::string& path, bool cached, const EachEntry& each) = 0;
  // At most `size` bytes from `offset`; kOutOfRange beyond the end, kIsDirectory.
  virtual Attempt<> read(const std::string& path, uint64_t offset, uint64_t size,
                         const TakeBytes& take) = 0;
};

struct Target {
  std::unique_ptr<PathTree> tree;
  std::string path;  // within the tree; children are path + '/' + name
};

// What `argument` names: a URL is a store, anything else a folder path of the daemon.
Attempt<Target> open_target(const std::string& argument);

// Whether `path`, absolute, is at or below the folder of a mount; false where no daemon runs.
bool is_in_namespace(const std::string& path);

std::string child_path(const std::string& parent, const std::string& name);

std::unique_ptr<PathTree> make_daemon_tree();
// The store of `url`, whose options are taken from it. Paths within are keys after a '/'.
Attempt<std::unique_ptr<PathTree>> make_store_tree(const StoreUrl& url);

}  // namespace leat
