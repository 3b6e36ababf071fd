// SPDX-License-Identifier: Apache-2.0
// SnapshotJob: the listing of everything at and below a folder of a mount, as a snapshot's file.
// The store is asked, whatever the catalog believes. After a failure nothing is left behind.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "catalog/catalog.h"
#include "catalog/snapshot/snapshot_builder.h"
#include "jobs/job.h"
#include "runtime/executor.h"

namespace leat {

// Makes the snapshot of a folder elsewhere than here, where its mount's source has somebody who
// does, and brings it into the file `output`; nothing where it has nobody. `progress` must not
// wait.
using SnapshotElsewhere = std::function<Task<Result<std::optional<SnapshotHead>>>(
    Context context, CatalogEntry folder, std::string output,
    std::function<void(const SnapshotProgress&)> progress)>;

class SnapshotJob : public Job {
 public:
  // `elsewhere` may be empty.
  SnapshotJob(uint64_t id, std::string path, std::string output, Catalog& catalog,
              Executor& executor, SnapshotElsewhere elsewhere)
      : Job(id, JobKind::kSnapshot, std::move(path)),
        output_(std::move(output)),
        catalog_(catalog),
        executor_(executor),
        elsewhere_(std::move(elsewhere)) {}

 private:
  Task<> work(Context context) override;
  Task<Result<>> build(Context context);

  const std::string output_;
  Catalog& catalog_;
  Executor& executor_;
  const SnapshotElsewhere elsewhere_;
};

}  // namespace leat
