// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/job_view.h"

#include <algorithm>

namespace leat {
namespace {

// Bound for one load.
constexpr unsigned kJobRequestsMax = 256;

// Returns the reason of a failure: the error of the job itself, else that of its first file.
std::optional<StatusCode> code_of(const JobInfo& info) {
  if (info.state == JobState::kCancelled) return StatusCode::kCancelled;
  if (info.state != JobState::kFailed || info.errors.empty()) return std::nullopt;
  auto whole = std::ranges::find(info.errors, info.path, &JobError::path);
  return whole != info.errors.end() ? whole->status.code() : info.errors.front().status.code();
}

}  // namespace

JobView job_view(const JobInfo& info) {
  JobView view{.id = info.id, .path = info.path};
  view.kind = to_string(info.kind);
  view.state = to_string(info.state);
  view.planned = info.progress.planned;
  view.automatic = info.progress.background;
  view.files_total = info.progress.files_total;
  view.files_done = info.progress.files_done;
  view.files_failed = info.progress.files_failed;
  view.errors_total = info.progress.errors;
  view.bytes_total = info.progress.bytes_total;
  view.bytes_done = info.progress.bytes_done;
  view.bytes_fetched = info.progress.bytes_fetched;
  view.bytes_verified = info.progress.bytes_verified;
  view.files_uncached = info.progress.files_uncached;
  view.bytes_uncached = info.progress.bytes_uncached;
  view.files_present = info.progress.files_already_present;
  view.names_skipped = info.progress.names_skipped;
  for (const SkippedNames& names : info.skipped) {
    view.skipped.push_back({names.directory, names.names, names.example});
  }
  view.added = info.progress.added;
  view.changed = info.progress.changed;
  view.removed = info.progress.removed;
  for (const JobChange& change : info.changes) {
    view.changes.push_back({std::string(to_string(change.kind)), change.path});
  }
  view.seconds = std::chrono::duration<double>(info.duration).count();
  view.started = info.started;
  for (const JobError& failed : info.errors) {
    std::string why = failed.status.to_string();
    view.errors.push_back(why.contains(failed.path) ? why : failed.path + ": " + why);
  }
  view.code = code_of(info);
  return view;
}

Result<JobSpec> job_spec_of(const JobRequest& request) {
  LEAT_TRY(JobKind kind, parse_job_kind(request.kind));
  OverwriteMode overwrite = OverwriteMode::kNever;
  if (!request.overwrite.empty()) {
    LEAT_TRY(overwrite, parse_overwrite_mode(request.overwrite));
  }
  return JobSpec{.kind = kind,
                 .path = request.path,
                 .output = request.to,
                 .selection = request.selection,
                 .verify = request.verify,
                 .bandwidth = request.bandwidth,
                 .requests = std::min(request.requests, kJobRequestsMax),
                 .overwrite = overwrite,
                 .background = request.background && kind == JobKind::kLoad};
}

}  // namespace leat
