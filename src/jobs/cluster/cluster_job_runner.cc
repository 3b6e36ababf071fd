// SPDX-License-Identifier: Apache-2.0
// Each record is written on two conditions: this process leads, and the record is unchanged since
// it was seen here. Cancellations write the record as well. So a failed write is retried at the
// next look().
#include "jobs/cluster/cluster_job_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/units.h"
#include "model/mount_entry.h"
#include "runtime/shared_result.h"
#include "telemetry/log.h"

namespace leat {
namespace {

using WallClock = std::chrono::system_clock;

// Each write replaces the record, and the registry keeps old revisions. So long orders are written
// less often.
constexpr Clock::duration kProgressWritten = std::chrono::seconds(2);
constexpr Clock::duration kProgressWrittenMax = std::chrono::seconds(30);
constexpr size_t kRecordBytes = 8 * kKiB;  // written at kProgressWritten
// Without a job for this time the stage is destroyed: its names take memory.
constexpr Clock::duration kIdle = std::chrono::seconds(60);
// Bound of events kept for recurring jobs.
constexpr size_t kEventsMax = 1000;

Clock::duration pause_of(const ClusterJob& job) {
  const size_t times = encode_cluster_job(job).size() / kRecordBytes;
  return std::min(kProgressWritten * static_cast<int64_t>(1 + times), kProgressWrittenMax);
}

class ClusterJobRunnerImpl : public ClusterJobRunner {
 public:
  explicit ClusterJobRunnerImpl(ClusterJobRunnerParts parts) : parts_(std::move(parts)) {}

  void note_change(std::string path, bool mounted) override {
    std::lock_guard lock(mutex_);
    // The last event of each path is enough.
    std::erase_if(events_, [&](const Event& event) {
      return event.path == path && event.mounted == mounted;
    });
    if (events_.size() == kEventsMax) events_.pop_front();
    events_.push_back({std::move(path), mounted, WallClock::now()});
  }

  Task<> stop() override {
    stopping_.request_stop();
    Result<bool> ended = co_await ended_->wait(Context::background(), "the end of jobs");
    static_cast<void>(ended);
  }

  // Runs until stop().
  Task<> run() {
    const Context context = Context::background().with_cancel(stopping_.get_token());
    RegistryRevision seen = 0;
    while (!context.cancelled()) {
      if (parts_.election.leads()) {
        co_await look(context);
      } else {
        co_await leave_stage();
      }
      co_await parts_.book.changed(context, &seen);
    }
    co_await leave_stage();
    ended_->set(true);
  }

 private:
  struct Event {
    std::string path;
    bool mounted;
    WallClock::time_point when;
  };
  struct Running {
    uint64_t number = 0;           // job number on the stage
    unsigned begun = 0;            // value for its record
    Clock::time_point write_at{};  // when to write progress next
    RegistryRevision ended = 0;    // revision that records the end; until it is seen here, the job
                                   // does not run again
  };

  bool is_due(const ClusterJob& job) const;
  Task<> look(Context context);
  Task<> look_at(Context context, ClusterJob job);
  Task<> begin(Context context, ClusterJob job);
  Task<> write_state(Context context, ClusterJob job);
  Task<> forget_old(Context context, std::vector<ClusterJob> jobs);
  Task<RegistryRevision> write(Context context, ClusterJob job);
  Task<> leave_stage();

  const ClusterJobRunnerParts parts_;
  std::stop_source stopping_;
  const std::shared_ptr<SharedResult<bool>> ended_ = SharedResult<bool>::make();
  // Used only by the task.
  std::unique_ptr<JobStage> stage_;
  std::map<uint64_t, Running> running_;
  Clock::time_point busy_{};

  mutable std::mutex mutex_;  // leaf
  std::deque<Event> events_;
};

// Returns whether a recurring job, which has ended its run, must run again. Uses the wall clock,
// since another host may have started the last run.
bool ClusterJobRunnerImpl::is_due(const ClusterJob& job) const {
  const auto now = WallClock::now();
  const WallClock::time_point began(
      std::chrono::duration_cast<WallClock::duration>(job.info.started.time_since_epoch()));
  const JobRepeat& repeat = job.repeat;
  if (repeat.every.count() > 0 && now - began >= repeat.every) return true;
  if (now - began < parts_.settle) return false;
  const std::string& path = job.order.path;
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(events_, [&](const Event& event) {
    const bool below = is_at_or_below(event.path, path);
    const bool concerns = event.mounted
                              ? repeat.on_mount && (below || is_at_or_below(path, event.path))
                              : repeat.on_change && below;
    return concerns && event.when > began && now - event.when >= parts_.settle;
  });
}

Task<> ClusterJobRunnerImpl::look(Context context) {
  const std::vector<ClusterJob> jobs = parts_.book.jobs();
  bool open = false;
  for (const ClusterJob& job : jobs) {
    if (auto mine = running_.find(job.id); mine != running_.end() && mine->second.ended != 0) {
      if (job.changed < mine->second.ended) continue;
      running_.erase(mine);
    }
    if (!job.ended() || running_.contains(job.id)) {
      open = true;
      co_await look_at(context, job);
    } else if (job.repeat.any() && job.info.state != JobState::kCancelled) {
      // Like a job that was never started.
      ClusterJob again = job;
      again.worker.clear();
      again.begun = 0;
      again.info.state = JobState::kRunning;
      if (job.cancel || is_due(job)) co_await look_at(context, std::move(again));
    }
    if (context.cancelled() || !parts_.election.leads()) co_return;
  }
  if (open) busy_ = Clock::now();
  if (!open && running_.empty() && Clock::now() - busy_ > kIdle) co_await leave_stage();
  co_await forget_old(context, jobs);
}

Task<> ClusterJobRunnerImpl::look_at(Context context, ClusterJob job) {
  if (running_.contains(job.id)) {
    co_await write_state(context, std::move(job));
  } else if (job.cancel) {
    job.info.state = JobState::kCancelled;
    static_cast<void>(co_await write(context, std::move(job)));
  } else {
    co_await begin(context, std::move(job));
  }
}

Task<> ClusterJobRunnerImpl::begin(Context context, ClusterJob job) {
  if (stage_ == nullptr) {
    Result<std::unique_ptr<JobStage>> stage = parts_.make_stage();
    if (!stage) {
      log::warning("the cluster's jobs wait: {}", stage.error().to_string());
      co_return;
    }
    stage_ = *std::move(stage);
  }
  busy_ = Clock::now();
  stage_->forget_names(job.order.path);
  JobOrder order = job.order;
  order.run = (job.id << 24) + job.runs;
  Result<JobInfo> begun = stage_->jobs().start(std::move(order));
  if (!begun && begun.error().code() == StatusCode::kBusy) co_return;  // retried later
  job.worker = parts_.worker;
  ++job.begun;
  if (begun) {
    running_[job.id] = {.number = begun->id, .begun = job.begun};
    job.info = *std::move(begun);
    log::info("job {} of the cluster begins: the {} of {}", job.id, to_string(job.order.kind),
              job.order.path);
  } else {
    job.info.state = JobState::kFailed;
    job.info.progress.errors = 1;
    job.info.errors = {{job.order.path, begun.error()}};
    ++job.runs;
  }
  static_cast<void>(co_await write(context, std::move(job)));
}

// For a job that runs here.
Task<> ClusterJobRunnerImpl::write_state(Context context, ClusterJob job) {
  auto mine = running_.find(job.id);
  JobTable& table = stage_->jobs();
  const uint64_t number = mine->second.number;
  if (job.cancel) static_cast<void>(table.cancel(number));
  Result<JobInfo> now = table.find(number);
  if (!now) {
    log::error("job {} of the cluster is lost: {}", job.id, now.error().to_string());
    running_.erase(mine);
    co_return;
  }
  const bool ended = now->state != JobState::kRunning;
  if (!ended && Clock::now() < mine->second.write_at) co_return;
  job.info = *std::move(now);
  job.worker = parts_.worker;
  job.begun = mine->second.begun;
  if (ended) ++job.runs;
  const std::string what =
      fmt::format("job {} of the cluster, the {} of {}, is {}", job.id, to_string(job.order.kind),
                  job.order.path, to_string(job.info.state));
  const Clock::duration pause = pause_of(job);
  const RegistryRevision written = co_await write(context, std::move(job));
  if (written == 0) co_return;
  mine->second.write_at = Clock::now() + pause;
  if (!ended) co_return;
  log::info("{}", what);
  mine->second.ended = written;
}

Task<> ClusterJobRunnerImpl::forget_old(Context context, std::vector<ClusterJob> jobs) {
  std::erase_if(jobs, [](const ClusterJob& job) { return !job.ended() || job.stands(); });
  if (jobs.size() <= parts_.ended_max) co_return;
  const auto lead = parts_.election.condition();
  if (!lead) co_return;
  RegistryChange change{.conditions = {*lead}};
  for (size_t i = 0; i < jobs.size() - parts_.ended_max; ++i) {
    change.removals.push_back(cluster_job_key(jobs[i].id));
  }
  Result<RegistryRevision> written = co_await parts_.registry.commit(context, std::move(change));
  if (!written) log::info("old jobs are not forgotten: {}", written.error().to_string());
}

// Returns 0 if the record was not written.
Task<RegistryRevision> ClusterJobRunnerImpl::write(Context context, ClusterJob job) {
  const auto lead = parts_.election.condition();
  if (!lead) co_return 0;
  const std::string key = cluster_job_key(job.id);
  RegistryChange change{.conditions = {*lead, {key, job.changed}},
                        .puts = {{key, encode_cluster_job(job)}}};
  Result<RegistryRevision> written = co_await parts_.registry.commit(context, std::move(change));
  if (!written && written.error().code() != StatusCode::kChanged && !context.cancelled()) {
    log::info("job {} is not written: {}", job.id, written.error().to_string());
  }
  co_return written ? *written : 0;
}

Task<> ClusterJobRunnerImpl::leave_stage() {
  if (stage_ == nullptr) co_return;
  co_await stage_->stop();
  stage_.reset();
  running_.clear();
}

}  // namespace

std::unique_ptr<ClusterJobRunner> ClusterJobRunner::start(ClusterJobRunnerParts parts,
                                                          Executor& executor) {
  auto runner = std::make_unique<ClusterJobRunnerImpl>(std::move(parts));
  executor.spawn(runner->run());
  return runner;
}

}  // namespace leat
