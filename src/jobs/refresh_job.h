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
#include "runtime/executor.h"
#include "runtime/gate.h"

namespace leat {

using RefreshHook = std::function<Task<>(std::string path)>;

class RefreshJob : public Job {
 public:
  // `on_refreshed` is awaited at the end, except after a cancellation; may be empty.
  RefreshJob(uint64_t id, std::string path, Catalog& catalog, Executor& executor,
             RefreshHook on_refreshed)
      : Job(id, JobKind::kRefresh, std::move(path)),
        catalog_(catalog),
        executor_(executor),
        on_refreshed_(std::move(on_refreshed)) {}

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
  Task<> refresh_wave(Gate::Holder holder, Context context, Wave* wave);

  Catalog& catalog_;
  Executor& executor_;
  const RefreshHook on_refreshed_;
};

}  // namespace leat
