// SPDX-License-Identifier: Apache-2.0
// Makes a snapshot of what a store has below a prefix.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "catalog/snapshot/snapshot.h"
#include "catalog/snapshot/snapshot_writer.h"
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

// What it says to be of.
struct SnapshotOf {
  StoreId store{};
  std::string source{};  // for people
  std::string prefix{};
};

struct SnapshotBuildOptions {
  std::string path;  // of the file to be; what is there is replaced at the very end
  uint64_t memory_bytes = 64 << 20;
  // Of a source that lists one level at a time: so many directories at once; 0: a listing of all
  // levels, page by page.
  unsigned directories_max = 0;
  // Instead of the source and the URL themselves.
  std::optional<SnapshotOf> of = {};
  uint64_t names_max = kSnapshotNamesMax;
  // Called after each page with what was listed so far; must not wait.
  std::function<void(const SnapshotProgress&)> progress = {};
};

// Lists all of `url`, which `source` was opened for, in bounded memory. What changes meanwhile is
// in it or not; it says when it was begun. After a failure, or when the context ends, nothing is
// left behind. One at a time for each path.
Task<Result<SnapshotHead>> build_snapshot(Context context, SourcePtr source, StoreUrl url,
                                          Executor& executor, SnapshotBuildOptions options);

}  // namespace leat
