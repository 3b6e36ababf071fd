// SPDX-License-Identifier: Apache-2.0
#include "jobs/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/mount_entry.h"

namespace leat {

std::string_view to_string(JobKind kind) {
  switch (kind) {
    case JobKind::kLoad:
      return "load";
    case JobKind::kFree:
      return "free";
    case JobKind::kVerify:
      return "verify";
    case JobKind::kSnapshot:
      return "snapshot";
    case JobKind::kRefresh:
      return "refresh";
    case JobKind::kCopy:
      return "copy";
  }
  LEAT_CHECK(false);
}

std::string_view to_string(JobState state) {
  switch (state) {
    case JobState::kRunning:
      return "running";
    case JobState::kDone:
      return "done";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
  }
  LEAT_CHECK(false);
}

Result<JobKind> parse_job_kind(std::string_view text) {
  for (JobKind kind : {JobKind::kLoad, JobKind::kFree, JobKind::kVerify, JobKind::kSnapshot,
                       JobKind::kRefresh, JobKind::kCopy}) {
    if (text == to_string(kind)) return kind;
  }
  return error(StatusCode::kInvalidArgument,
               fmt::format("there is no job '{}'; there are 'load', 'free', 'verify', "
                           "'snapshot', 'refresh' and 'copy'",
                           text));
}

Job::Job(uint64_t id, JobKind kind, std::string path)
    : id_(id),
      kind_(kind),
      path_(std::move(path)),
      started_(std::chrono::system_clock::now()),
      started_at_(Clock::now()) {}

JobInfo Job::info() const {
  std::lock_guard lock(mutex_);
  Clock::time_point until = state_ == JobState::kRunning ? Clock::now() : ended_at_;
  return {.id = id_,
          .kind = kind_,
          .path = path_,
          .state = state_,
          .progress = progress_,
          .started = started_,
          .duration = until - started_at_,
          .errors = errors_,
          .changes = changes_,
          .skipped = skipped_};
}

Task<> Job::run() {
  Context context = Context::background().with_cancel(stop_.get_token());
  co_await work(context);
  std::lock_guard lock(mutex_);
  ended_at_ = Clock::now();
  if (context.cancelled()) {
    state_ = JobState::kCancelled;
  } else {
    state_ = progress_.errors == 0 ? JobState::kDone : JobState::kFailed;
  }
}

void Job::add_error(std::string path, const Status& status, uint64_t files) {
  if (stop_.stop_requested() && status.code() == StatusCode::kCancelled) return;
  const std::string text = status.to_string();
  auto is_same = [&](const JobError& known) {
    return known.path == path && known.status.to_string() == text;
  };
  std::lock_guard lock(mutex_);
  ++progress_.errors;
  progress_.files_failed += files;
  if (std::ranges::any_of(errors_, is_same)) return;
  if (errors_.size() < kErrorsMax) errors_.push_back({std::move(path), status});
}

void Job::note_skipped(SkippedNames skipped) {
  std::lock_guard lock(mutex_);
  progress_.names_skipped += skipped.names;
  if (skipped_.size() < kSkippedMax) skipped_.push_back(std::move(skipped));
}

void Job::clear_findings() {
  std::lock_guard lock(mutex_);
  progress_.errors = progress_.files_failed = progress_.names_skipped = 0;
  errors_.clear();
  skipped_.clear();
}

void Job::note_changes(std::string_view directory, const RefreshResult& result) {
  std::lock_guard lock(mutex_);
  progress_.added += result.added;
  progress_.changed += result.changed;
  progress_.removed += result.removed;
  for (const NamedChange& change : result.first) {
    if (changes_.size() == kChangesMax) break;
    std::string path = join_path(directory, change.name);
    if (change.directory) path += '/';
    changes_.push_back({std::move(path), change.kind});
  }
}

}  // namespace leat
