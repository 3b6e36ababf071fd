// SPDX-License-Identifier: Apache-2.0
// CopyJob: copies every file at and below a path to another path of the namespace, or to a store.
// Copies files concurrently, each in sequential pieces of 8 MiB. Skips files that already exist at
// the destination, so that a restarted job continues.
#pragma once

#include <memory>
#include <string>

#include "catalog/catalog.h"
#include "jobs/file_copier.h"
#include "jobs/files_job.h"
#include "runtime/bandwidth_line.h"
#include "runtime/semaphore.h"

namespace leat {

struct CopyJobOptions {
  // A path of the namespace, or a store's URL. The content of a directory goes into it. A file gets
  // this name, or keeps its own name below it if it ends in '/'.
  std::string to{};
  CopyOver over = CopyOver::kNothing;
  unsigned files_max = 8;  // copied concurrently, each with one request at a time
  uint64_t bandwidth = 0;  // written to the store, bytes a second; 0: no limit
};

// Returns `to` in the form to keep: a normalised path, except for a trailing '/'. kInvalidArgument,
// also for a path at or below `from`.
Result<std::string> check_copy(const std::string& from, std::string_view to);

class CopyJob : public FilesJob {
 public:
  CopyJob(uint64_t id, std::string path, FileFilter filter, Catalog& catalog, FileCopier& copier,
          Executor& executor, CopyJobOptions options);

 private:
  struct Chosen {  // a file of a listing
    std::string path;
    FileRefPtr ref;
    std::optional<WallTime> mtime;
  };

  Task<> work(Context context) override;
  Task<Result<>> look_at_ends(Context context);
  JobProgress count(const Listing& listing, const ChosenFiles& chosen) const override;
  Task<bool> begin_files(Context context, std::string directory, ListingPtr listing,
                         const ChosenFiles* chosen) override;
  Task<> copy_file(Activity::Token token, Semaphore::Permit slot, Context context, Chosen file);
  Task<Result<CopyState>> copy_version(Context context, Chosen file);
  Task<Result<CopyState>> copy_once(Context context, Chosen file);
  Task<Result<Chosen>> look_again(Context context, Chosen file);
  CopyGoal goal_of(const Chosen& file) const;
  // Makes the names of copied files visible now.
  Task<> show_names(Context context);

  bool in_namespace() const { return options_.to.starts_with('/'); }

  FileCopier& copier_;
  const CopyJobOptions options_;
  Semaphore files_;
  Activity activity_, names_activity_;
  bool of_one_file_ = false;
  BandwidthLine line_;
};

}  // namespace leat
