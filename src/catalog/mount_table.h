// SPDX-License-Identifier: Apache-2.0
// MountTable: which mount answers for a path, and which names exist only because something is
// mounted below them. Not thread-safe: the tree guards it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"
#include "catalog/snapshot/snapshot_order.h"

namespace leat {

// "/a" for "/a/b", "/" for "/a". Not for "/".
std::string_view parent_path(std::string_view path);
// "b" for "/a/b"; empty for "/".
std::string_view last_component(std::string_view path);

class MountTable {
 public:
  // kExists when the path is taken.
  Result<> add(MountPtr mount);
  // Null when nothing is mounted there.
  MountPtr remove(std::string_view path);
  // In place of the one at the same path, which is there.
  void replace(MountPtr mount);

  std::vector<MountPtr> all() const;
  // Mounted exactly at `path`, or null.
  MountPtr at(std::string_view path) const;
  // The mount with the longest path that `path` is at or below, or null.
  MountPtr owner(std::string_view path) const;
  struct Route {
    MountPtr mount;       // the path's owner
    bool stands = false;  // the path exists since it is a mount point, leads to one or is the root
  };
  Route route(std::string_view path) const;
  // The names in directory `path` that are mount points or lead to one; sorted.
  std::vector<std::string> names_in(std::string_view path) const;
  // Changes with each add and remove.
  uint64_t generation() const { return generation_; }

 private:
  // By components, so that what is below a path follows it without a gap.
  struct PathLess {
    using is_transparent = void;
    bool operator()(std::string_view a, std::string_view b) const {
      return compare_paths(a, b) < 0;
    }
  };
  std::map<std::string, MountPtr, PathLess> mounts_;
  uint64_t generation_ = 0;
};

// "b/c" for "/a/b/c" in a mount at "/a"; empty for the mount's own.
std::string_view path_below_mount(const Mount& mount, std::string_view path);

// The key of directory `path` in its mount's bucket: ends in '/' or is "".
std::string directory_key_in_mount(const Mount& mount, std::string_view path);

}  // namespace leat
