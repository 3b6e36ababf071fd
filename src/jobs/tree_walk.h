// SPDX-License-Identifier: Apache-2.0
// TreeWalk: visits the directories at and below a path one by one, parents first. Lists the next
// few ahead, since each may cost the store's latency. Not thread-safe.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"
#include "model/file_filter.h"
#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/task.h"

namespace leat {

class TreeWalk {
 public:
  struct Step {
    std::string path;  // of the directory; of `root`'s parent if `root` is a file
    Result<ListingPtr> listing;
  };

  // `gate` counts the listings ahead; all must outlive its end. Skips directories in which
  // `filter` matches nothing.
  TreeWalk(Catalog& catalog, Executor& executor, Gate& gate, std::string root,
           FileFilter filter = {});

  // Returns nothing after the last one. A directory that cannot be listed is a step with its error,
  // and the walk continues. A file is a listing of itself alone.
  Task<std::optional<Step>> next(Context context);
  // Returns whether a further directory follows, as far as the last step shows.
  Task<bool> more();

 private:
  struct Pending {
    std::string path;
    bool requested = false;
  };
  // A visited directory with subdirectories that are still to be visited.
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
  void start_listings_ahead(const Context& context);

  Catalog& catalog_;
  Executor& executor_;
  Gate& gate_;
  const std::string root_;
  const FileFilter filter_;
  bool begun_ = false;
  std::deque<Pending> first_;  // the root, before its visit
  std::vector<Level> levels_;  // innermost last
};

// Selects files of one directory by a filter of names below `root`.
class FileSelector {
 public:
  FileSelector(const FileFilter& filter, std::string_view root, std::string_view directory);
  bool matches(std::string_view name) const;

 private:
  const FileFilter& filter_;
  std::string prefix_;  // prefix of each name
};

}  // namespace leat
