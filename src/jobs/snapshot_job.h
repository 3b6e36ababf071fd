// SPDX-License-Identifier: Apache-2.0
// SnapshotJob: writes the listing of everything at and below a folder of a mount to a snapshot
// file. Lists the store, and ignores cached names. A failure leaves no file behind.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "catalog/catalog.h"
#include "catalog/snapshot/snapshot_builder.h"
#include "jobs/job.h"
#include "runtime/executor.h"

namespace leat {

// Makes the snapshot of a folder on another host, if the source of its mount supports that, and
// writes it to the file `output`. Returns nothing if the source does not. `progress` must not wait.
using RemoteSnapshotBuilder = std::function<Task<Result<std::optional<SnapshotHead>>>(
    Context context, CatalogEntry folder, std::string output,
    std::function<void(const SnapshotProgress&)> progress)>;

class SnapshotJob : public Job {
 public:
  // `remote_builder` may be empty.
  SnapshotJob(uint64_t id, std::string path, std::string output, Catalog& catalog,
              Executor& executor, RemoteSnapshotBuilder remote_builder)
      : Job(id, JobKind::kSnapshot, std::move(path)),
        output_(std::move(output)),
        catalog_(catalog),
        executor_(executor),
        remote_builder_(std::move(remote_builder)) {}

 private:
  Task<> work(Context context) override;
  Task<Result<>> build(Context context);

  const std::string output_;
  Catalog& catalog_;
  Executor& executor_;
  const RemoteSnapshotBuilder remote_builder_;
};

}  // namespace leat
