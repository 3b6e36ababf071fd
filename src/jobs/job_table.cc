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

const MetricFamily kRunning(MetricType::kGauge, "leat_jobs_running", "Jobs that run");

}  // namespace

JobTable::JobTable(JobTableOptions options, Catalog& catalog, CacheTarget* target,
                   Executor& executor)
    : options_(std::move(options)),
      catalog_(catalog),
      target_(target),
      executor_(executor),
      running_gauge_(kRunning, [this] {
        std::lock_guard lock(mutex_);
        return static_cast<double>(running_locked());
      }) {}

JobTable::~JobTable() {
  LEAT_CHECK(activity_.idle());
}

Result<JobInfo> JobTable::start(JobOrder order, std::optional<uint64_t> given_id) {
  LEAT_TRY(order.path, normalise_path(order.path));
  LEAT_TRY(FileFilter filter, FileFilter::make(order.selection));
  const bool of_names = order.kind == JobKind::kSnapshot || order.kind == JobKind::kRefresh;
  const std::string what = fmt::format("{} '{}'", to_string(order.kind), order.path);
  if (target_ == nullptr && !of_names) {
    return error(
        StatusCode::kUnsupported,
        fmt::format("cannot {}: there is no cache; start Leat with a cache directory", what));
  }
  if (order.kind == JobKind::kCopy) {
    LEAT_TRY(order.output, check_copy(order.path, order.output));
    if (options_.copier == nullptr) {
      return error(StatusCode::kUnsupported,
                   fmt::format("cannot {}: a job copies in a cluster only; 'leat cp' copies by way "
                               "of this host",
                               what));
    }
  }
  auto token = activity_.enter();
  if (!token) {
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
      if (order.output.empty() || other.output != order.output || other.ended->ready()) continue;
      return error(
          StatusCode::kBusy,
          fmt::format("job {} is just writing {}; wait for it or cancel it", number, order.output));
    }
    const uint64_t id = given_id.value_or(next_id_);
    if (jobs_.contains(id)) {
      return error(StatusCode::kExists, fmt::format("cannot {}: there is a job {}", what, id));
    }
    next_id_ = std::max(next_id_, id + 1);
    entry = {nullptr, SharedResult<bool>::make(), order.output};
    entry.job = make(id, std::move(order), std::move(filter));
    jobs_.emplace(id, entry);
  }
  JobInfo info = entry.info();
  executor_.spawn(run(*std::move(token), std::move(entry)));
  return info;
}

std::shared_ptr<Job> JobTable::make(uint64_t id, JobOrder order, FileFilter filter) {
  if (order.kind == JobKind::kFree) {
    return std::make_shared<FreeJob>(id, std::move(order.path), std::move(filter), catalog_,
                                     *target_, executor_);
  }
  if (order.kind == JobKind::kSnapshot) {
    return std::make_shared<SnapshotJob>(id, std::move(order.path), std::move(order.output),
                                         catalog_, executor_, options_.snapshot_elsewhere);
  }
  if (order.kind == JobKind::kRefresh) {
    return std::make_shared<RefreshJob>(id, std::move(order.path), catalog_, executor_,
                                        options_.refreshed);
  }
  if (order.kind == JobKind::kVerify) {
    return std::make_shared<VerifyJob>(id, std::move(order.path), *target_, order.run,
                                       options_.verified);
  }
  if (order.kind == JobKind::kCopy) {
    CopyJobOptions copy{.to = std::move(order.output), .over = order.over};
    copy.files_max = order.requests > 0 ? order.requests : options_.copies_max;
    copy.bandwidth = order.bandwidth;
    return std::make_shared<CopyJob>(id, std::move(order.path), std::move(filter), catalog_,
                                     *options_.copier, executor_, std::move(copy));
  }
  LoadOptions load = options_.load;
  load.verify = order.verify;
  load.bandwidth = order.bandwidth;
  if (order.requests > 0) load.pieces_max = order.requests;
  return std::make_shared<LoadJob>(id, std::move(order.path), std::move(filter), catalog_, *target_,
                                   executor_, load);
}

Task<> JobTable::run(Activity::Token token, Entry entry) {
  // A job may have started while stop() cancelled the others.
  if (activity_.closed()) entry.cancel();
  co_await entry.job->run();
  const uint64_t id = entry.job->id();
  remember_end(id, std::make_shared<const JobInfo>(entry.info()));
  entry.job.reset();
  // Before waiters and listeners are notified.
  if (options_.ended) options_.ended(id);
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
  activity_.close();
  std::vector<Entry> entries;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : jobs_) entries.push_back(entry);
  }
  for (const Entry& entry : entries) entry.cancel();
  co_await activity_.wait_idle();
}

Result<JobTable::Entry> JobTable::entry(uint64_t id) const {
  std::lock_guard lock(mutex_);
  auto found = jobs_.find(id);
  if (found != jobs_.end()) return found->second;
  return error(StatusCode::kNotFound,
               fmt::format("there is no job {}; the last {} that ended are remembered", id,
                           options_.ended_max));
}

size_t JobTable::running_locked() const {
  return jobs_.size() - ended_.size();
}

void JobTable::remember_end(uint64_t id, std::shared_ptr<const JobInfo> outcome) {
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
