// SPDX-License-Identifier: Apache-2.0
// JobTable: starts jobs, shows them and remembers the last ones that ended. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "jobs/cache_target.h"
#include "jobs/file_copier.h"
#include "jobs/job.h"
#include "jobs/job_order.h"
#include "jobs/load_job.h"
#include "jobs/refresh_job.h"
#include "jobs/snapshot_job.h"
#include "jobs/verify_job.h"
#include "runtime/activity.h"
#include "runtime/executor.h"
#include "runtime/shared_result.h"
#include "telemetry/metrics.h"

namespace leat {

struct JobTableOptions {
  size_t running_max = 16;
  size_t ended_max = 100;  // remembered
  LoadOptions load{};
  // Who copies, and how many files at once; null: nobody does.
  FileCopier* copier = nullptr;
  unsigned copies_max = 8;
  // What else there is to be done of a path that was refreshed; may be empty.
  Refreshed refreshed{};
  // Awaited at the end of each verification; may be empty.
  Verified verified{};
  // Who makes snapshots in place of this host; may be empty.
  SnapshotElsewhere snapshot_elsewhere{};
  // Told of each that has ended, on any thread; may be empty.
  std::function<void(uint64_t id)> ended{};
};

class JobTable {
 public:
  // `target` may be null: then only jobs over names can be started. All must outlive the table, and
  // stop() must have ended before it goes.
  JobTable(JobTableOptions options, Catalog& catalog, CacheTarget* target, Executor& executor);
  ~JobTable();

  // Returns as soon as it runs; whether the path exists shows in the job. kInvalidArgument for what
  // is no namespace path or no pattern, kBusy when running_max run, kUnsupported without a cache.
  // `id`: the number of one that a predecessor began; later ones get greater numbers.
  Result<JobInfo> start(JobOrder order, std::optional<uint64_t> id = std::nullopt);
  Result<JobInfo> start(JobKind kind, std::string path) {
    return start(JobOrder{.kind = kind, .path = std::move(path)});
  }

  std::vector<JobInfo> list() const;  // oldest first
  // kNotFound for one that never was or was forgotten; also the two below.
  Result<JobInfo> find(uint64_t id) const;
  // Asks it to end, and tells what it was doing; nothing happens to one that has ended.
  Result<JobInfo> cancel(uint64_t id);
  // Returns when the job has ended.
  Task<Result<JobInfo>> wait(Context context, uint64_t id);

  // Cancels what runs, refuses what is new, and returns when nothing runs any more.
  Task<> stop();

 private:
  // A job while it runs, then only what it tells: it may have a list of 100,000 files.
  struct Entry {
    std::shared_ptr<Job> job;
    std::shared_ptr<SharedResult<bool>> ended;
    std::string output{};
    std::shared_ptr<const JobInfo> outcome{};  // null while it runs

    JobInfo info() const { return outcome != nullptr ? *outcome : job->info(); }
    void cancel() const {
      if (job != nullptr) job->cancel();
    }
  };

  Task<> run(Activity::Token token, Entry entry);
  std::shared_ptr<Job> make(uint64_t id, JobOrder order, FileFilter filter);
  Result<Entry> entry(uint64_t id) const;
  size_t running_locked() const;
  void remember_end(uint64_t id, std::shared_ptr<const JobInfo> outcome);

  const JobTableOptions options_;
  Catalog& catalog_;
  CacheTarget* const target_;
  Executor& executor_;
  Activity activity_;
  mutable std::mutex mutex_;  // before a job's own
  std::map<uint64_t, Entry> jobs_;
  std::deque<uint64_t> ended_;  // the first to end first; all are in jobs_
  uint64_t next_id_ = 1;
  const Gauge running_gauge_;
};

}  // namespace leat
