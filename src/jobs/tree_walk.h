// SPDX-License-Identifier: Apache-2.0
// TreeWalk: the directories at and below a path, one after the other, parents first. The next few
// are asked for ahead, since each may cost the store's latency. For one user.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"
#include "model/file_filter.h"
#include "runtime/activity.h"
#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/task.h"

namespace leat {

class TreeWalk {
 public:
  struct Step {
    std::string path;  // of the directory; of `root`'s parent when that is a file
    Result<ListingPtr> listing;
  };

  // All must outlive `activity`'s end, in which listings that were asked for ahead are counted.
  // Directories in which `filter` finds nothing are left out.
  TreeWalk(Catalog& catalog, Executor& executor, Activity& activity, std::string root,
           FileFilter filter = {});

  // Nothing after the last. A directory that cannot be listed is a step with its error; the walk
  // goes on after it. A file is a listing of itself alone.
  Task<std::optional<Step>> next(Context context);
  // Whether another directory is to come, as far as the last step tells.
  Task<bool> more();

 private:
  struct Pending {
    std::string path;
    bool asked = false;
  };
  // A directory that was given, of which the directories in it are still to come.
  struct Level {
    std::string path;
    ListingPtr listing;
    Listing::Cursor cursor;
    std::deque<Pending> next;  // the first few of them

    void fill(const FileFilter& filter, std::string_view root);
  };

  Task<std::optional<Step>> begin(Context context);
  bool seek();
  std::string take_next();
  void ask_ahead(const Context& context);

  Catalog& catalog_;
  Executor& executor_;
  Activity& activity_;
  const std::string root_;
  const FileFilter filter_;
  bool begun_ = false;
  std::deque<Pending> first_;  // the root, before it is given
  std::vector<Level> levels_;  // the innermost last
};

// Which files of one directory a filter of names below `root` chooses.
class ChosenFiles {
 public:
  ChosenFiles(const FileFilter& filter, std::string_view root, std::string_view directory);
  bool contain(std::string_view name) const;

 private:
  const FileFilter& filter_;
  std::string in_front_;  // of each name
};

}  // namespace leat
