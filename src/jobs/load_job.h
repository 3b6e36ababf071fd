// SPDX-License-Identifier: Apache-2.0
// LoadJob: loads every file at and below a path into the page store. Files load concurrently, large
// ones in pieces of 8 MiB. Leaves requests for readers (Fetcher::ensure).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "jobs/job_cache.h"
#include "jobs/per_file_job.h"
#include "runtime/bandwidth_limiter.h"
#include "runtime/semaphore.h"

namespace leat {

struct LoadOptions {
  // Files and pieces that are loaded or wait for the store's limiter. It bounds the requests; more
  // that wait here would only take memory.
  unsigned files_max = 1024;
  unsigned pieces_max = 1024;
  unsigned verified_max = 16;  // pieces that are read from the cache's disk at once
  // So many pieces in a row without space in the page store end the job. Otherwise it would fetch
  // the rest of the data in vain.
  unsigned rejections_max = 32;
  bool verify = false;     // as in JobSpec
  uint64_t bandwidth = 0;  // as in JobSpec
  // Ends without an error when it has looked at nine tenths of the cache's capacity: more would
  // evict what it has just loaded.
  bool background = false;
  // Walks again until everything is cached at the end of a walk, at most so often. In a cluster,
  // data loaded while a worker was away lies on failover workers.
  unsigned rounds_max = 1;
};

class LoadJob : public PerFileJob {
 public:
  LoadJob(uint64_t id, std::string path, FileFilter filter, Catalog& catalog, JobCache& cache,
          Executor& executor, LoadOptions options = {});

 private:
  struct Version;  // a file version that is being loaded

  Task<> work(Context context) override;
  Task<> load_all(Context context);
  JobProgress count(const Listing& listing, const FileSelector& selector) const override;
  Task<bool> begin_files(Context context, std::string directory, ListingPtr listing,
                         const FileSelector* selector) override;
  Task<> load_file(Gate::Holder holder, Semaphore::Permit slot, Context context, std::string path,
                   FileRefPtr ref);
  Task<Result<>> load_again(Context context, std::string path, FileRefPtr& ref);
  Task<Result<>> load_version(Context context, FileRefPtr ref);
  Task<Result<>> verify_version(Context context, FileRefPtr ref);
  Task<Result<>> wait_for_bandwidth(Context context, FileRefPtr ref, ByteRange piece);
  Task<> load_piece(Gate::Holder holder, Semaphore::Permit slot, Context context, Version* version,
                    ByteRange piece);
  void note_rejection();
  void note_loaded(FileRefPtr ref);
  Task<JobProgress> count_evicted(Context context);
  void note_evicted(const JobProgress& evicted);
  Task<> check_loaded(Gate::Holder holder, Context context, size_t first, JobProgress* evicted);

  JobCache& cache_;
  const LoadOptions options_;
  Semaphore files_;
  Semaphore pieces_;
  Semaphore verified_;
  BandwidthLimiter limiter_;
  std::unique_ptr<Gate> gate_;  // of the present walk
  std::stop_source full_;       // stopped when the page store has no space
  std::atomic<unsigned> rejections_ = 0;
  uint64_t begun_bytes_ = 0;        // of files that were started; guarded by the task that walks
  std::mutex mutex_;                // leaf
  std::vector<FileRefPtr> loaded_;  // a sample: each stands for loaded_share_ files
  uint64_t loaded_share_ = 1;       // a power of two
};

}  // namespace leat
