// SPDX-License-Identifier: Apache-2.0
// SnapshotJob: the listing of everything at and below a folder of a mount, as a snapshot's file.
// The store is asked, whatever the catalog believes. After a failure nothing is left behind.
#pragma once

#include <string>

#include "catalog/catalog.h"
#include "jobs/job.h"
#include "runtime/executor.h"

namespace leat {

class SnapshotJob : public Job {
 public:
  SnapshotJob(uint64_t id, std::string path, std::string output, Catalog& catalog,
              Executor& executor)
      : Job(id, JobKind::kSnapshot, std::move(path)),
        output_(std::move(output)),
        catalog_(catalog),
        executor_(executor) {}

 private:
  Task<> work(Context context) override;
  Task<Result<>> build(Context context);

  const std::string output_;
  Catalog& catalog_;
  Executor& executor_;
};

}  // namespace leat
