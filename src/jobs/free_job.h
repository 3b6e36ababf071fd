// SPDX-License-Identifier: Apache-2.0
// FreeJob: drops the files at and below a path from the page store and from memory. Drops present
// versions only: older ones have no path any more and leave by eviction.
#pragma once

#include <string>

#include "catalog/catalog.h"
#include "jobs/job.h"
#include "jobs/job_cache.h"
#include "model/file_filter.h"
#include "runtime/executor.h"
#include "runtime/gate.h"

namespace leat {

class FreeJob : public Job {
 public:
  FreeJob(uint64_t id, std::string path, FileFilter filter, Catalog& catalog, JobCache& cache,
          Executor& executor);

 private:
  Task<> work(Context context) override;
  Task<> free_listing(Context context, std::string directory, ListingPtr listing);

  const FileFilter filter_;
  Catalog& catalog_;
  JobCache& cache_;
  Executor& executor_;
  Gate gate_;
};

}  // namespace leat
