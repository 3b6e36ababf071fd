// SPDX-License-Identifier: Apache-2.0
// CopyJob: copies every file at and below a path to another path of the namespace, or to a store.
// Copies files concurrently, each in sequential pieces of 8 MiB. Skips files that already exist at
// the destination, so that a restarted job continues.
#pragma once

#include <memory>
#include <string>

#include "catalog/catalog.h"
#include "jobs/file_copier.h"
#include "jobs/per_file_job.h"
#include "runtime/bandwidth_limiter.h"
#include "runtime/semaphore.h"

namespace leat {

struct CopyJobOptions {
  // A path of the namespace, or a store's URL. The content of a directory goes into it. A file gets
  // this name, or keeps its own name below it if it ends in '/'.
  std::string to{};
  OverwriteMode overwrite = OverwriteMode::kNever;
  unsigned files_max = 8;  // copied concurrently, each with one request at a time
  uint64_t bandwidth = 0;  // written to the store, bytes a second; 0: no limit
};

// Returns `to` in the form to keep: a normalised path, except for a trailing '/'. kInvalidArgument,
// also for a path at or below `from`.
Result<std::string> check_copy(const std::string& from, std::string_view to);

class CopyJob : public PerFileJob {
 public:
  CopyJob(uint64_t id, std::string path, FileFilter filter, Catalog& catalog, FileCopier& copier,
          Executor& executor, CopyJobOptions options);

 private:
  struct SelectedFile {  // a file of a listing
    std::string path;
    FileRefPtr ref;
    std::optional<WallTime> mtime;
  };

  Task<> work(Context context) override;
  Task<Result<>> check_endpoints(Context context);
  JobProgress count(const Listing& listing, const FileSelector& selector) const override;
  Task<bool> begin_files(Context context, std::string directory, ListingPtr listing,
                         const FileSelector* selector) override;
  Task<> copy_file(Gate::Holder holder, Semaphore::Permit slot, Context context, SelectedFile file);
  Task<Result<CopyState>> copy_version(Context context, SelectedFile file);
  Task<Result<CopyState>> copy_once(Context context, SelectedFile file);
  Task<Result<SelectedFile>> refresh_file(Context context, SelectedFile file);
  CopySpec spec_of(const SelectedFile& file) const;
  // Makes the names of copied files visible now.
  Task<> publish_names(Context context);

  bool in_namespace() const { return options_.to.starts_with('/'); }

  FileCopier& copier_;
  const CopyJobOptions options_;
  Semaphore files_;
  Gate gate_, names_gate_;
  bool of_one_file_ = false;
  BandwidthLimiter limiter_;
};

}  // namespace leat
