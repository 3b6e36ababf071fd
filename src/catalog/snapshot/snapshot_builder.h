// SPDX-License-Identifier: Apache-2.0
// Makes a snapshot of a store's content below a prefix.
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

// Identity to record in the snapshot.
struct SnapshotIdentity {
  StoreId store{};
  std::string source{};  // for people
  std::string prefix{};
};

struct SnapshotBuildOptions {
  std::string path;  // of the new file; an existing one is replaced at the very end
  uint64_t memory_bytes = 64 << 20;
  // For a source that lists one level at a time: number of directories listed at once. 0: one
  // recursive listing, page by page.
  unsigned directories_max = 0;
  // Overrides the identity of the source and the URL.
  std::optional<SnapshotIdentity> identity = {};
  uint64_t names_max = kSnapshotNamesMax;
  // Called after each page with the totals so far; must not wait.
  std::function<void(const SnapshotProgress&)> progress = {};
};

// Lists all of `url`, for which `source` was opened, in bounded memory. Changes meanwhile may be
// included or not; the head records the start time. After a failure or a cancelled context no file
// is left. Only one build for each path at a time.
Task<Result<SnapshotHead>> build_snapshot(Context context, SourcePtr source, StoreUrl url,
                                          Executor& executor, SnapshotBuildOptions options);

}  // namespace leat
