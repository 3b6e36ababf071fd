// SPDX-License-Identifier: Apache-2.0
// MountTable: finds the mount of a path, and the names that exist only because something is mounted
// below them. Not thread-safe: the tree guards it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"
#include "catalog/snapshot/snapshot_order.h"

namespace leat {

// Returns "/a" for "/a/b", "/" for "/a". Not for "/".
std::string_view parent_path(std::string_view path);
// Returns "b" for "/a/b"; empty for "/".
std::string_view last_component(std::string_view path);

class MountTable {
 public:
  // Returns kExists if the path is taken.
  Result<> add(MountPtr mount);
  // Returns null if nothing is mounted there.
  MountPtr remove(std::string_view path);
  // Replaces the mount at the same path, which must exist.
  void replace(MountPtr mount);

  std::vector<MountPtr> all() const;
  // Returns the mount exactly at `path`, or null.
  MountPtr at(std::string_view path) const;
  // Returns the mount with the longest path at or above `path`, or null.
  MountPtr owner(std::string_view path) const;
  struct Route {
    MountPtr mount;               // the path's owner
    bool in_mount_table = false;  // the path is a mount point, leads to one, or is the root
  };
  Route route(std::string_view path) const;
  // Returns the sorted names in directory `path` that are mount points or lead to one.
  std::vector<std::string> names_in(std::string_view path) const;
  // Changes with each add and remove.
  uint64_t generation() const { return generation_; }

 private:
  // Orders by components, so paths below a path follow it without a gap.
  struct PathLess {
    using is_transparent = void;
    bool operator()(std::string_view a, std::string_view b) const {
      return compare_paths(a, b) < 0;
    }
  };
  std::map<std::string, MountPtr, PathLess> mounts_;
  uint64_t generation_ = 0;
};

// Returns "b/c" for "/a/b/c" in a mount at "/a"; empty for the mount's own path.
std::string_view path_below_mount(const Mount& mount, std::string_view path);

// Returns the key of directory `path` in its mount's bucket: ends in '/' or is "".
std::string directory_key_in_mount(const Mount& mount, std::string_view path);

}  // namespace leat
