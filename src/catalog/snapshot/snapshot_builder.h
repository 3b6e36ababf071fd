// SPDX-License-Identifier: Apache-2.0
// Makes a snapshot of what a store has below a prefix.
#pragma once

#include <functional>
#include <string>

#include "catalog/snapshot/snapshot.h"
#include "model/store_url.h"
#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/task.h"
#include "source/source.h"

namespace leat {

struct SnapshotProgress {
  uint64_t files = 0;
  uint64_t bytes = 0;
};

struct SnapshotBuildOptions {
  std::string path;  // of the file to be; what is there is replaced at the very end
  uint64_t memory_bytes = 64 << 20;
  // Called after each page with what was listed so far; must not wait.
  std::function<void(const SnapshotProgress&)> progress = {};
};

// Lists all of `url`, which `source` was opened for, in bounded memory. What changes meanwhile is
// in it or not; it says when it was begun. After a failure, or when the context ends, nothing is
// left behind. One at a time for each path.
Task<Result<SnapshotHead>> build_snapshot(Context context, SourcePtr source, StoreUrl url,
                                          Executor& executor, SnapshotBuildOptions options);

}  // namespace leat
