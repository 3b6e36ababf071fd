// SPDX-License-Identifier: Apache-2.0
// Each record is written on two conditions: this process leads, and the record is unchanged since
// it was seen here. Cancellations write the record as well. So a failed write is retried at the
// next poll().
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
#include "runtime/shared_promise.h"
#include "telemetry/log.h"

namespace leat {
namespace {

using WallClock = std::chrono::system_clock;

// Each write replaces the record, and the registry keeps old revisions. So long specs are written
// less often.
constexpr Clock::duration kProgressInterval = std::chrono::seconds(2);
constexpr Clock::duration kProgressIntervalMax = std::chrono::seconds(30);
constexpr size_t kRecordBytes = 8 * kKiB;  // written at kProgressInterval
// Without a job for this time the environment is destroyed: its names take memory.
constexpr Clock::duration kEnvironmentIdleMax = std::chrono::seconds(60);
// Epoch loads at the same time.
constexpr int64_t kEpochLoadsMax = 4;
// Bound of events kept for recurring jobs.
constexpr size_t kEventsMax = 1000;

Clock::duration progress_interval_of(const ClusterJob& job) {
  const size_t times = encode_cluster_job(job).size() / kRecordBytes;
  return std::min(kProgressInterval * static_cast<int64_t>(1 + times), kProgressIntervalMax);
}

class ClusterJobRunnerImpl : public ClusterJobRunner {
 public:
  explicit ClusterJobRunnerImpl(ClusterJobRunnerDeps deps) : deps_(std::move(deps)) {}

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
      if (deps_.election.leads()) {
        co_await poll(context);
      } else {
        co_await drop_environment();
      }
      co_await deps_.store.wait_for_change(context, &seen);
    }
    co_await drop_environment();
    ended_->set(true);
  }

 private:
  struct Event {
    std::string path;
    bool mounted;
    WallClock::time_point when;
  };
  struct Running {
    uint64_t number = 0;  // job number in the environment
    unsigned starts = 0;  // value for its record
    bool background = false;
    Clock::time_point write_at{};  // when to write progress next
    RegistryRevision ended = 0;    // revision that records the end; until it is seen here, the job
                                   // does not run again
  };

  bool is_due(const ClusterJob& job) const;
  Task<> poll(Context context);
  Task<> advance(Context context, ClusterJob job);
  bool is_abandoned(const ClusterJob& job);
  bool must_wait(const ClusterJob& job) const;
  Task<> begin(Context context, ClusterJob job);
  Task<> write_state(Context context, ClusterJob job);
  Task<> remove_old(Context context, std::vector<ClusterJob> jobs);
  Task<RegistryRevision> write(Context context, ClusterJob job);
  Task<> drop_environment();

  const ClusterJobRunnerDeps deps_;
  std::stop_source stopping_;
  const std::shared_ptr<SharedPromise<bool>> ended_ = SharedPromise<bool>::make();
  // Used only by the task.
  std::unique_ptr<JobEnvironment> environment_;
  std::map<uint64_t, Running> running_;
  struct Readers {
    uint64_t reports = 0;
    Clock::time_point at{};  // when they last changed
  };
  std::map<uint64_t, Readers> readers_;  // of epoch loads, by job
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
  const JobSchedule& schedule = job.schedule;
  if (schedule.every.count() > 0 && now - began >= schedule.every) return true;
  if (now - began < deps_.debounce) return false;
  const std::string& path = job.spec.path;
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(events_, [&](const Event& event) {
    const bool below = is_at_or_below(event.path, path);
    const bool concerns = event.mounted
                              ? schedule.on_mount && (below || is_at_or_below(path, event.path))
                              : schedule.on_change && below;
    return concerns && event.when > began && now - event.when >= deps_.debounce;
  });
}

Task<> ClusterJobRunnerImpl::poll(Context context) {
  const std::vector<ClusterJob> jobs = deps_.store.jobs();
  bool open = false;
  for (const ClusterJob& job : jobs) {
    if (auto mine = running_.find(job.id); mine != running_.end() && mine->second.ended != 0) {
      if (job.revision < mine->second.ended) continue;
      running_.erase(mine);
    }
    if (!job.ended() || running_.contains(job.id)) {
      open = true;
      co_await advance(context, job);
    } else if (job.schedule.any() && job.info.state != JobState::kCancelled) {
      // Like a job that was never started.
      ClusterJob again = job;
      again.worker.clear();
      again.starts = 0;
      again.info.state = JobState::kRunning;
      if (job.cancel || is_due(job)) co_await advance(context, std::move(again));
    }
    if (context.cancelled() || !deps_.election.leads()) co_return;
  }
  std::erase_if(readers_, [&](const auto& one) {
    const auto job = std::ranges::find(jobs, one.first, &ClusterJob::id);
    return job == jobs.end() || job->ended();
  });
  if (open) busy_ = Clock::now();
  if (!open && running_.empty() && Clock::now() - busy_ > kEnvironmentIdleMax)
    co_await drop_environment();
  co_await remove_old(context, jobs);
}

Task<> ClusterJobRunnerImpl::advance(Context context, ClusterJob job) {
  if (running_.contains(job.id)) {
    co_await write_state(context, std::move(job));
  } else if (job.cancel || is_abandoned(job)) {
    job.info.state = JobState::kCancelled;
    static_cast<void>(co_await write(context, std::move(job)));
  } else {
    co_await begin(context, std::move(job));
  }
}

// A load behind readers of which no client has reported any for a while.
bool ClusterJobRunnerImpl::is_abandoned(const ClusterJob& job) {
  if (!job.spec.background) return false;
  const Clock::time_point now = Clock::now();
  auto [seen, is_new] = readers_.try_emplace(job.id, Readers{job.reports, now});
  if (!is_new && seen->second.reports != job.reports) seen->second = {job.reports, now};
  return now - seen->second.at > deps_.readers_gone_after;
}

// Epoch loads leave places to jobs that somebody asked for.
bool ClusterJobRunnerImpl::must_wait(const ClusterJob& job) const {
  if (!job.spec.background) return false;
  const auto running = std::ranges::count_if(
      running_, [](const auto& one) { return one.second.background && one.second.ended == 0; });
  return running >= kEpochLoadsMax;
}

Task<> ClusterJobRunnerImpl::begin(Context context, ClusterJob job) {
  if (must_wait(job)) co_return;
  if (environment_ == nullptr) {
    Result<std::unique_ptr<JobEnvironment>> environment = deps_.make_environment();
    if (!environment) {
      log::warning("jobs of the cluster cannot start yet: {}", environment.error().to_string());
      co_return;
    }
    environment_ = *std::move(environment);
  }
  busy_ = Clock::now();
  // Readers have just listed them.
  if (!job.spec.background) environment_->invalidate_names(job.spec.path);
  JobSpec spec = job.spec;
  spec.run = (job.id << 24) + job.runs;
  Result<JobInfo> started = environment_->jobs().start(std::move(spec));
  if (!started && started.error().code() == StatusCode::kBusy) co_return;  // retried later
  job.worker = deps_.worker;
  ++job.starts;
  if (started) {
    running_[job.id] = {
        .number = started->id, .starts = job.starts, .background = job.spec.background};
    job.info = *std::move(started);
    log::info("job {} of the cluster starts: {} of {}", job.id, to_string(job.spec.kind),
              job.spec.path);
  } else {
    job.info.state = JobState::kFailed;
    job.info.progress.errors = 1;
    job.info.errors = {{job.spec.path, started.error()}};
    ++job.runs;
  }
  static_cast<void>(co_await write(context, std::move(job)));
}

// For a job that runs here.
Task<> ClusterJobRunnerImpl::write_state(Context context, ClusterJob job) {
  auto mine = running_.find(job.id);
  JobTable& table = environment_->jobs();
  const uint64_t number = mine->second.number;
  if (job.cancel || is_abandoned(job)) static_cast<void>(table.cancel(number));
  Result<JobInfo> now = table.find(number);
  if (!now) {
    log::error("job {} of the cluster is lost: {}", job.id, now.error().to_string());
    running_.erase(mine);
    co_return;
  }
  const bool ended = now->state != JobState::kRunning;
  if (!ended && Clock::now() < mine->second.write_at) co_return;
  job.info = *std::move(now);
  job.worker = deps_.worker;
  job.starts = mine->second.starts;
  if (ended) ++job.runs;
  const std::string what =
      fmt::format("job {} of the cluster, the {} of {}, is {}", job.id, to_string(job.spec.kind),
                  job.spec.path, to_string(job.info.state));
  const Clock::duration pause = progress_interval_of(job);
  const RegistryRevision written = co_await write(context, std::move(job));
  if (written == 0) co_return;
  mine->second.write_at = Clock::now() + pause;
  if (!ended) co_return;
  log::info("{}", what);
  mine->second.ended = written;
}

Task<> ClusterJobRunnerImpl::remove_old(Context context, std::vector<ClusterJob> jobs) {
  std::erase_if(jobs, [](const ClusterJob& job) { return !job.ended() || job.is_recurring(); });
  if (jobs.size() <= deps_.ended_max) co_return;
  const auto lead = deps_.election.condition();
  if (!lead) co_return;
  RegistryChange change{.conditions = {*lead}};
  for (size_t i = 0; i < jobs.size() - deps_.ended_max; ++i) {
    change.removals.push_back(cluster_job_key(jobs[i].id));
  }
  Result<RegistryRevision> written = co_await deps_.registry.commit(context, std::move(change));
  if (!written) log::info("failed to remove old jobs: {}", written.error().to_string());
}

// Returns 0 if the record was not written.
Task<RegistryRevision> ClusterJobRunnerImpl::write(Context context, ClusterJob job) {
  const auto lead = deps_.election.condition();
  if (!lead) co_return 0;
  const std::string key = cluster_job_key(job.id);
  RegistryChange change{.conditions = {*lead, {key, job.revision}},
                        .puts = {{key, encode_cluster_job(job)}}};
  Result<RegistryRevision> written = co_await deps_.registry.commit(context, std::move(change));
  if (!written && written.error().code() != StatusCode::kVersionChanged && !context.cancelled()) {
    log::info("failed to write the record of job {}: {}", job.id, written.error().to_string());
  }
  co_return written ? *written : 0;
}

Task<> ClusterJobRunnerImpl::drop_environment() {
  if (environment_ == nullptr) co_return;
  co_await environment_->stop();
  environment_.reset();
  running_.clear();
}

}  // namespace

std::unique_ptr<ClusterJobRunner> ClusterJobRunner::start(ClusterJobRunnerDeps deps,
                                                          Executor& executor) {
  auto runner = std::make_unique<ClusterJobRunnerImpl>(std::move(deps));
  executor.spawn(runner->run());
  return runner;
}

}  // namespace leat
