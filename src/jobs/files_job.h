// SPDX-License-Identifier: Apache-2.0
// FilesJob: a job that does something with every chosen file at and below a path: goes over the
// directories, counts what there is to do, and has each directory's files begun.
#pragma once

#include <string>

#include "catalog/catalog.h"
#include "jobs/job.h"
#include "jobs/tree_walk.h"
#include "model/file_filter.h"
#include "runtime/activity.h"
#include "runtime/executor.h"

namespace leat {

class FilesJob : public Job {
 protected:
  FilesJob(uint64_t id, JobKind kind, std::string path, FileFilter filter, Catalog& catalog,
           Executor& executor)
      : Job(id, kind, std::move(path)),
        filter_(std::move(filter)),
        catalog_(catalog),
        executor_(executor) {}

  // Returns when the files of the last directory are begun, or begin_files() said no. Errors of
  // directories, and names that they leave out, are the job's. What is listed ahead counts in
  // `activity`.
  Task<> walk(Context context, Activity& activity);

  // What there is to do in a directory; called on any thread.
  virtual JobProgress count(const Listing& listing, const ChosenFiles& chosen) const = 0;
  // False when the job is to end. `chosen` is there until it returns.
  virtual Task<bool> begin_files(Context context, std::string directory, ListingPtr listing,
                                 const ChosenFiles* chosen) = 0;

  const FileFilter& filter() const { return filter_; }
  Catalog& catalog() const { return catalog_; }
  Executor& executor() const { return executor_; }

 private:
  Task<bool> take(Context context, std::string directory, ListingPtr listing, bool last);

  const FileFilter filter_;
  Catalog& catalog_;
  Executor& executor_;
};

}  // namespace leat
