// SPDX-License-Identifier: Apache-2.0
// CopyJob: copies every file at and below a path to another place of the namespace, or to a store.
// Files side by side, each in pieces of 8 MiB, one after the other. What is there already is left,
// so that one which is begun again goes on.
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
  // A path of the namespace, or a store's URL. What lies in a directory goes into it; a file gets
  // that name, or its own in it where it ends in '/'.
  std::string to{};
  CopyOver over = CopyOver::kNothing;
  unsigned files_max = 8;  // being copied at once, each one request at a time
  uint64_t bandwidth = 0;  // bytes a second that go to the store; 0: no limit
};

// `to` as it is kept: a path is made normal, but for a '/' at its end. kInvalidArgument, also for
// one at or below the path that is copied.
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
  // Names of what was copied are looked for now.
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
