// SPDX-License-Identifier: Apache-2.0
// JobTable: starts jobs, lists them and keeps the last ones that ended. Thread-safe.
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
#include "jobs/file_copier.h"
#include "jobs/job.h"
#include "jobs/job_cache.h"
#include "jobs/job_spec.h"
#include "jobs/load_job.h"
#include "jobs/refresh_job.h"
#include "jobs/snapshot_job.h"
#include "jobs/verify_job.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/shared_promise.h"
#include "telemetry/metrics.h"

namespace leat {

struct JobTableOptions {
  size_t running_max = 16;
  size_t ended_max = 100;  // ended jobs that are kept
  LoadOptions load{};
  // Copies files; null: copy jobs are not supported. copies_max: concurrent files.
  FileCopier* copier = nullptr;
  unsigned copies_max = 8;
  // Further work on a refreshed path; may be empty.
  RefreshHook on_refreshed{};
  // Awaited at the end of each verification; may be empty.
  VerifyHook on_verified{};
  // Makes snapshots instead of this host; may be empty.
  RemoteSnapshotBuilder remote_snapshots{};
  // Called after the end of each job, on any thread; may be empty.
  std::function<void(uint64_t id)> on_ended{};
};

class JobTable {
 public:
  // `cache` may be null: then only jobs over names can start. All must outlive the table. stop()
  // must have ended before its destruction.
  JobTable(JobTableOptions options, Catalog& catalog, JobCache* cache, Executor& executor);
  ~JobTable();

  // Returns as soon as the job runs; a missing path is an error of the job. Errors:
  // kInvalidArgument for an invalid namespace path or pattern, kBusy if running_max jobs run,
  // kUnsupported without a cache. `id`: the number of a job that a predecessor started; later ones
  // get greater numbers.
  Result<JobInfo> start(JobSpec spec, std::optional<uint64_t> id = std::nullopt);
  Result<JobInfo> start(JobKind kind, std::string path) {
    return start(JobSpec{.kind = kind, .path = std::move(path)});
  }

  std::vector<JobInfo> list() const;  // oldest first
  // kNotFound for a job that never existed or was removed; also the two below.
  Result<JobInfo> find(uint64_t id) const;
  // Requests cancellation, and returns the job's state. No effect on a job that has ended.
  Result<JobInfo> cancel(uint64_t id);
  // Returns when the job has ended.
  Task<Result<JobInfo>> wait(Context context, uint64_t id);

  // Cancels running jobs, rejects new ones, and returns when none runs.
  Task<> stop();

 private:
  // A job while it runs; afterwards only its outcome, since it may hold a list of 100,000 files.
  struct Entry {
    std::shared_ptr<Job> job;
    std::shared_ptr<SharedPromise<bool>> ended;
    std::string output{};
    std::shared_ptr<const JobInfo> outcome{};  // null while it runs

    JobInfo info() const { return outcome != nullptr ? *outcome : job->info(); }
    void cancel() const {
      if (job != nullptr) job->cancel();
    }
  };

  Task<> run(Gate::Holder holder, Entry entry);
  std::shared_ptr<Job> make(uint64_t id, JobSpec spec, FileFilter filter);
  Result<Entry> entry(uint64_t id) const;
  size_t running_locked() const;
  void record_end(uint64_t id, std::shared_ptr<const JobInfo> outcome);

  const JobTableOptions options_;
  Catalog& catalog_;
  JobCache* const cache_;
  Executor& executor_;
  Gate gate_;
  mutable std::mutex mutex_;  // taken before a job's own
  std::map<uint64_t, Entry> jobs_;
  std::deque<uint64_t> ended_;  // in the order of their ends; all are in jobs_
  uint64_t next_id_ = 1;
  const Gauge running_gauge_;
};

}  // namespace leat
