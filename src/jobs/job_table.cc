// SPDX-License-Identifier: Apache-2.0
#include "jobs/job_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "jobs/copy_job.h"
#include "jobs/free_job.h"
#include "jobs/refresh_job.h"
#include "jobs/verify_job.h"
#include "model/mount_entry.h"

namespace leat {
namespace {

const MetricFamily kRunning(MetricType::kGauge, "leat_jobs_running", "Running jobs");

}  // namespace

JobTable::JobTable(JobTableOptions options, Catalog& catalog, JobCache* cache, Executor& executor)
    : options_(std::move(options)),
      catalog_(catalog),
      cache_(cache),
      executor_(executor),
      running_gauge_(kRunning, [this] {
        std::lock_guard lock(mutex_);
        return static_cast<double>(running_locked());
      }) {}

JobTable::~JobTable() {
  LEAT_CHECK(gate_.idle());
}

Result<JobInfo> JobTable::start(JobSpec spec, std::optional<uint64_t> given_id) {
  LEAT_TRY(spec.path, normalise_path(spec.path));
  LEAT_TRY(FileFilter filter, FileFilter::make(spec.selection));
  const bool of_names = spec.kind == JobKind::kSnapshot || spec.kind == JobKind::kRefresh;
  const std::string what = fmt::format("{} '{}'", to_string(spec.kind), spec.path);
  if (cache_ == nullptr && !of_names) {
    return error(
        StatusCode::kUnsupported,
        fmt::format("cannot {}: there is no cache; start Leat with a cache directory", what));
  }
  if (spec.kind == JobKind::kCopy) {
    LEAT_TRY(spec.output, check_copy(spec.path, spec.output));
    if (options_.copier == nullptr) {
      return error(StatusCode::kUnsupported,
                   fmt::format("cannot {}: a job copies in a cluster only; 'leat cp' copies by way "
                               "of this host",
                               what));
    }
  }
  auto holder = gate_.enter();
  if (!holder) {
    return error(StatusCode::kCancelled, fmt::format("cannot {}: Leat is stopping", what));
  }
  Entry entry;
  {
    std::lock_guard lock(mutex_);
    if (running_locked() >= options_.running_max) {
      return error(StatusCode::kBusy,
                   fmt::format("cannot {}: {} jobs run already; wait for one or cancel it", what,
                               options_.running_max));
    }
    for (const auto& [number, other] : jobs_) {
      if (spec.output.empty() || other.output != spec.output || other.ended->ready()) continue;
      return error(
          StatusCode::kBusy,
          fmt::format("job {} is just writing {}; wait for it or cancel it", number, spec.output));
    }
    const uint64_t id = given_id.value_or(next_id_);
    if (jobs_.contains(id)) {
      return error(StatusCode::kExists, fmt::format("cannot {}: there is a job {}", what, id));
    }
    next_id_ = std::max(next_id_, id + 1);
    entry = {nullptr, SharedPromise<bool>::make(), spec.output};
    entry.job = make(id, std::move(spec), std::move(filter));
    jobs_.emplace(id, entry);
  }
  JobInfo info = entry.info();
  executor_.spawn(run(*std::move(holder), std::move(entry)));
  return info;
}

std::shared_ptr<Job> JobTable::make(uint64_t id, JobSpec spec, FileFilter filter) {
  if (spec.kind == JobKind::kFree) {
    return std::make_shared<FreeJob>(id, std::move(spec.path), std::move(filter), catalog_, *cache_,
                                     executor_);
  }
  if (spec.kind == JobKind::kSnapshot) {
    return std::make_shared<SnapshotJob>(id, std::move(spec.path), std::move(spec.output), catalog_,
                                         executor_, options_.remote_snapshots);
  }
  if (spec.kind == JobKind::kRefresh) {
    return std::make_shared<RefreshJob>(id, std::move(spec.path), catalog_, executor_,
                                        options_.on_refreshed);
  }
  if (spec.kind == JobKind::kVerify) {
    return std::make_shared<VerifyJob>(id, std::move(spec.path), *cache_, spec.run,
                                       options_.on_verified);
  }
  if (spec.kind == JobKind::kCopy) {
    CopyJobOptions copy{.to = std::move(spec.output), .overwrite = spec.overwrite};
    copy.files_max = spec.requests > 0 ? spec.requests : options_.copies_max;
    copy.bandwidth = spec.bandwidth;
    return std::make_shared<CopyJob>(id, std::move(spec.path), std::move(filter), catalog_,
                                     *options_.copier, executor_, std::move(copy));
  }
  LoadOptions load = options_.load;
  load.verify = spec.verify;
  load.bandwidth = spec.bandwidth;
  load.background = spec.background;
  if (spec.requests > 0) load.pieces_max = spec.requests;
  return std::make_shared<LoadJob>(id, std::move(spec.path), std::move(filter), catalog_, *cache_,
                                   executor_, load);
}

Task<> JobTable::run(Gate::Holder holder, Entry entry) {
  // A job may have started while stop() cancelled the others.
  if (gate_.closed()) entry.cancel();
  co_await entry.job->run();
  const uint64_t id = entry.job->id();
  record_end(id, std::make_shared<const JobInfo>(entry.info()));
  entry.job.reset();
  // Before waiters and listeners are notified.
  if (options_.on_ended) options_.on_ended(id);
  entry.ended->set(true);
}

std::vector<JobInfo> JobTable::list() const {
  std::lock_guard lock(mutex_);
  std::vector<JobInfo> infos;
  for (const auto& [id, entry] : jobs_) infos.push_back(entry.info());
  return infos;
}

Result<JobInfo> JobTable::find(uint64_t id) const {
  LEAT_TRY(Entry found, entry(id));
  return found.info();
}

Result<JobInfo> JobTable::cancel(uint64_t id) {
  LEAT_TRY(Entry found, entry(id));
  JobInfo info = found.info();
  found.cancel();
  return info;
}

Task<Result<JobInfo>> JobTable::wait(Context context, uint64_t id) {
  Result<Entry> found = entry(id);
  if (!found) co_return Error(found.error());
  Result<bool> ended = co_await found->ended->wait(context, "waiting for a job");
  if (!ended) co_return Error(ended.error());
  co_return found->info();
}

Task<> JobTable::stop() {
  gate_.close();
  std::vector<Entry> entries;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : jobs_) entries.push_back(entry);
  }
  for (const Entry& entry : entries) entry.cancel();
  co_await gate_.wait_idle();
}

Result<JobTable::Entry> JobTable::entry(uint64_t id) const {
  std::lock_guard lock(mutex_);
  auto found = jobs_.find(id);
  if (found != jobs_.end()) return found->second;
  return error(StatusCode::kNotFound,
               fmt::format("there is no job {}; the table has the last {} that ended", id,
                           options_.ended_max));
}

size_t JobTable::running_locked() const {
  return jobs_.size() - ended_.size();
}

void JobTable::record_end(uint64_t id, std::shared_ptr<const JobInfo> outcome) {
  std::lock_guard lock(mutex_);
  Entry& entry = jobs_.at(id);
  entry.job = nullptr;  // run() shares it, so it is not freed under the lock
  entry.outcome = std::move(outcome);
  ended_.push_back(id);
  if (ended_.size() <= options_.ended_max) return;
  jobs_.erase(ended_.front());
  ended_.pop_front();
}

}  // namespace leat
