// SPDX-License-Identifier: Apache-2.0
// TreeWalk: the directories at and below a path, one after the other, parents first. The next few
// are asked for ahead, since each may cost the store's latency. For one user.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"
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
  TreeWalk(Catalog& catalog, Executor& executor, Activity& activity, std::string root);

  // Nothing after the last. A directory that cannot be listed is a step with its error; the walk
  // goes on after it. A file is a listing of itself alone.
  Task<std::optional<Step>> next(Context context);

 private:
  struct Pending {
    std::string path;
    bool asked = false;
  };

  Task<std::optional<Step>> begin(Context context);
  void ask_ahead(const Context& context);

  Catalog& catalog_;
  Executor& executor_;
  Activity& activity_;
  const std::string root_;
  bool begun_ = false;
  std::vector<Pending> pending_;  // the last one is next
};

// "/a" + "b" = "/a/b", "/" + "b" = "/b".
std::string join_path(const std::string& directory, const std::string& name);

}  // namespace leat
