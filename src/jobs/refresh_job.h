// SPDX-License-Identifier: Apache-2.0
// RefreshJob: requests all cached names at and below a path from the store again, and reports the
// changes. Names that are not cached cannot have changed.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "jobs/job.h"
#include "runtime/activity.h"
#include "runtime/executor.h"

namespace leat {

using Refreshed = std::function<Task<>(std::string path)>;

class RefreshJob : public Job {
 public:
  // `refreshed` is awaited at the end, except after a cancellation; may be empty.
  RefreshJob(uint64_t id, std::string path, Catalog& catalog, Executor& executor,
             Refreshed refreshed)
      : Job(id, JobKind::kRefresh, std::move(path)),
        catalog_(catalog),
        executor_(executor),
        refreshed_(std::move(refreshed)) {}

 private:
  // Directories of one depth, refreshed concurrently. Their parents are refreshed before. So a
  // removed directory is one change, and not one for each name in it.
  struct Wave {
    std::vector<std::string> paths;
    std::atomic<size_t> next = 0;
  };

  Task<> work(Context context) override;
  Task<bool> refresh_itself(Context context);
  Task<> refresh_all(Context context, std::vector<std::string> paths);
  Task<> ask(Activity::Token token, Context context, Wave* wave);

  Catalog& catalog_;
  Executor& executor_;
  const Refreshed refreshed_;
};

}  // namespace leat
