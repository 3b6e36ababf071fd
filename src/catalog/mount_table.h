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

  std::vector<MountPtr> all() const;
  // Mounted exactly at `path`, or null.
  MountPtr at(std::string_view path) const;
  // The mount with the longest path that `path` is at or below, or null.
  MountPtr owner(std::string_view path) const;
  // Whether something is mounted below `path` (not at it).
  bool has_below(std::string_view path) const;
  // The names in directory `path` that are mount points or lead to one; sorted.
  std::vector<std::string> names_in(std::string_view path) const;
  // Changes with each add and remove.
  uint64_t generation() const { return generation_; }

 private:
  std::map<std::string, MountPtr, std::less<>> mounts_;
  uint64_t generation_ = 0;
};

// The key of directory `path` in its mount's bucket: ends in '/' or is "".
std::string directory_key_in_mount(const Mount& mount, std::string_view path);

}  // namespace leat
