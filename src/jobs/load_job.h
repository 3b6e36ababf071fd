// SPDX-License-Identifier: Apache-2.0
// LoadJob: brings every file at and below a path into the page store. Files side by side, large
// ones in pieces of 8 MiB; leaves requests to readers (Fetcher::ensure).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "jobs/cache_target.h"
#include "jobs/files_job.h"
#include "runtime/bandwidth_line.h"
#include "runtime/semaphore.h"

namespace leat {

struct LoadOptions {
  unsigned files_max = 16;   // being loaded at once
  unsigned pieces_max = 16;  // requests at once, over all files
  // So many pieces in a row for which the page store had no room end the job: it would fetch the
  // rest of the data for nothing.
  unsigned refusals_max = 32;
  bool verify = false;     // as JobOrder
  uint64_t bandwidth = 0;  // as JobOrder
  // Walks over all of it until everything is there at the end of one: in a cluster what was loaded
  // while a worker was away lies with those that stood in for it.
  unsigned rounds_max = 1;
};

class LoadJob : public FilesJob {
 public:
  LoadJob(uint64_t id, std::string path, FileFilter filter, Catalog& catalog, CacheTarget& target,
          Executor& executor, LoadOptions options = {});

 private:
  struct Version;  // one file version being loaded

  Task<> work(Context context) override;
  Task<> load_all(Context context);
  JobProgress count(const Listing& listing, const ChosenFiles& chosen) const override;
  Task<bool> begin_files(Context context, std::string directory, ListingPtr listing,
                         const ChosenFiles* chosen) override;
  Task<> load_file(Activity::Token token, Semaphore::Permit slot, Context context, std::string path,
                   FileRefPtr ref);
  Task<Result<>> load_again(Context context, std::string path, FileRefPtr& ref);
  Task<Result<>> load_version(Context context, FileRefPtr ref);
  Task<Result<>> read_back(Context context, FileRefPtr ref);
  Task<Result<>> wait_for_turn(Context context, FileRefPtr ref, ByteRange piece);
  Task<> load_piece(Activity::Token token, Semaphore::Permit slot, Context context,
                    Version* version, ByteRange piece);
  void note_refusal();
  void note_loaded(FileRefPtr ref);
  Task<JobProgress> count_gone(Context context);
  void note_gone(const JobProgress& gone);
  Task<> look_again(Activity::Token token, Context context, size_t first, JobProgress* gone);

  CacheTarget& target_;
  const LoadOptions options_;
  Semaphore files_;
  Semaphore pieces_;
  BandwidthLine line_;
  std::unique_ptr<Activity> activity_;  // of the present walk
  std::stop_source full_;               // the page store has no room
  std::atomic<unsigned> refusals_ = 0;
  std::mutex mutex_;                // leaf
  std::vector<FileRefPtr> loaded_;  // those of which each stands for loaded_share_ files
  uint64_t loaded_share_ = 1;       // a power of two
};

}  // namespace leat
