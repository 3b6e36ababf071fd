// SPDX-License-Identifier: Apache-2.0
// Each record is written on two conditions: that we lead, and that it is as we have seen it. Who
// wants a job to end writes as well; so what was not written is tried again at the next look.
#include "jobs/cluster/cluster_job_runner.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "runtime/shared_result.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr Clock::duration kProgressWritten = std::chrono::seconds(2);
// Without a job for so long its stage goes: its names take memory.
constexpr Clock::duration kIdle = std::chrono::seconds(60);

class ClusterJobRunnerImpl : public ClusterJobRunner {
 public:
  explicit ClusterJobRunnerImpl(ClusterJobRunnerParts parts) : parts_(std::move(parts)) {}

  Task<> stop() override {
    stopping_.request_stop();
    Result<bool> ended = co_await ended_->wait(Context::background(), "the end of jobs");
    static_cast<void>(ended);
  }

  // Until stop().
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
  struct Running {
    Clock::time_point written{};
    unsigned begun = 0;  // as its record is to say
  };

  Task<> look(Context context);
  Task<> look_at(Context context, ClusterJob job);
  Task<> begin(Context context, ClusterJob job);
  Task<> forget_old(Context context, std::vector<ClusterJob> jobs);
  Task<bool> write(Context context, ClusterJob job);
  Task<> leave_stage();

  const ClusterJobRunnerParts parts_;
  std::stop_source stopping_;
  const std::shared_ptr<SharedResult<bool>> ended_ = SharedResult<bool>::make();
  // Of the task alone.
  std::unique_ptr<JobStage> stage_;
  std::map<uint64_t, Running> running_;
  Clock::time_point busy_{};
};

Task<> ClusterJobRunnerImpl::leave_stage() {
  if (stage_ == nullptr) co_return;
  co_await stage_->stop();
  stage_.reset();
  running_.clear();
}

Task<> ClusterJobRunnerImpl::look(Context context) {
  const std::vector<ClusterJob> jobs = parts_.book.jobs();
  bool open = false;
  for (const ClusterJob& job : jobs) {
    if (job.ended()) {
      running_.erase(job.id);
      continue;
    }
    open = true;
    co_await look_at(context, job);
    if (context.cancelled() || !parts_.election.leads()) co_return;
  }
  if (open) busy_ = Clock::now();
  if (!open && Clock::now() - busy_ > kIdle) co_await leave_stage();
  co_await forget_old(context, jobs);
}

Task<> ClusterJobRunnerImpl::look_at(Context context, ClusterJob job) {
  auto mine = running_.find(job.id);
  if (mine == running_.end()) {
    if (job.cancel) {
      job.info.state = JobState::kCancelled;
      static_cast<void>(co_await write(context, std::move(job)));
      co_return;
    }
    co_await begin(context, std::move(job));
    co_return;
  }
  Result<JobInfo> now = job.cancel ? stage_->jobs().cancel(job.id) : stage_->jobs().find(job.id);
  if (!now) {
    log::error("job {} of the cluster is lost: {}", job.id, now.error().to_string());
    running_.erase(mine);
    co_return;
  }
  const bool ended = now->state != JobState::kRunning;
  if (!ended && Clock::now() - mine->second.written < kProgressWritten) co_return;
  job.info = *std::move(now);
  job.worker = parts_.worker;
  job.begun = mine->second.begun;
  const bool written = co_await write(context, job);
  if (!written) co_return;
  mine->second.written = Clock::now();
  if (ended) {
    log::info("job {} of the cluster, the {} of {}, is {}", job.id, to_string(job.order.kind),
              job.order.path, to_string(job.info.state));
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
  Result<JobInfo> begun = stage_->jobs().start(job.order, job.id);
  if (!begun && begun.error().code() == StatusCode::kBusy) co_return;  // it waits for its turn
  job.worker = parts_.worker;
  ++job.begun;
  if (begun) {
    running_[job.id] = {.begun = job.begun};
    job.info = *std::move(begun);
    log::info("job {} of the cluster begins: the {} of {}", job.id, to_string(job.order.kind),
              job.order.path);
  } else {
    job.info.state = JobState::kFailed;
    job.info.progress.errors = 1;
    job.info.errors = {{job.order.path, begun.error()}};
  }
  static_cast<void>(co_await write(context, std::move(job)));
}

Task<> ClusterJobRunnerImpl::forget_old(Context context, std::vector<ClusterJob> jobs) {
  std::erase_if(jobs, [](const ClusterJob& job) { return !job.ended(); });
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

Task<bool> ClusterJobRunnerImpl::write(Context context, ClusterJob job) {
  const auto lead = parts_.election.condition();
  if (!lead) co_return false;
  const std::string key = cluster_job_key(job.id);
  RegistryChange change{.conditions = {*lead, {key, job.changed}},
                        .puts = {{key, encode_cluster_job(job)}}};
  Result<RegistryRevision> written = co_await parts_.registry.commit(context, std::move(change));
  if (!written && written.error().code() != StatusCode::kChanged && !context.cancelled()) {
    log::info("job {} is not written: {}", job.id, written.error().to_string());
  }
  co_return written.has_value();
}

}  // namespace

std::unique_ptr<ClusterJobRunner> ClusterJobRunner::start(ClusterJobRunnerParts parts,
                                                          Executor& executor) {
  auto runner = std::make_unique<ClusterJobRunnerImpl>(std::move(parts));
  executor.spawn(runner->run());
  return runner;
}

}  // namespace leat
