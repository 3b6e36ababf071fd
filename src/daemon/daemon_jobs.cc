// SPDX-License-Identifier: Apache-2.0
// The jobs of a daemon.
#include <utility>

#include "daemon/daemon.h"
#include "frontends/admin/job_view.h"
#include "telemetry/log.h"

namespace leat {

Result<JobView> Daemon::start_job(JobRequest request) {
  return begin_job(std::move(request), std::nullopt);
}

Result<JobView> Daemon::begin_job(JobRequest request, std::optional<uint64_t> id) {
  LEAT_TRY(JobSpec spec, job_spec_of(request));
  const JobKind kind = spec.kind;
  if (kind == JobKind::kSnapshot) {
    LEAT_TRY(spec.output, snapshots_->file_for(request.name));
  }
  LEAT_TRY(JobInfo info, jobs_->start(std::move(spec), id));
  if (kind == JobKind::kLoad) {
    job_journal_.add(info.id, request);
    // The job may have ended before add().
    auto now = jobs_->find(info.id);
    if (now && now->state != JobState::kRunning) job_journal_.remove(info.id);
  }
  return job_view(info);
}

// Restarts unfinished jobs of a predecessor; each cached file costs one check.
void Daemon::resume_jobs() {
  for (JobJournal::Job& job : job_journal_.load()) {
    const std::string path = job.request.path;
    Result<JobView> begun = begin_job(std::move(job.request), job.id);
    if (begun) {
      log::info("resumed job {}, the load of {}", job.id, path);
    } else {
      log::warning("failed to resume job {}, the load of {}: {}", job.id, path,
                   begun.error().to_string());
    }
  }
}

std::vector<JobView> Daemon::jobs() const {
  std::vector<JobView> views;
  for (const JobInfo& info : jobs_->list()) views.push_back(job_view(info));
  return views;
}

Result<JobView> Daemon::job(uint64_t id) const {
  LEAT_TRY(JobInfo info, jobs_->find(id));
  return job_view(info);
}

Result<JobView> Daemon::cancel_job(uint64_t id) {
  LEAT_TRY(JobInfo info, jobs_->cancel(id));
  return job_view(info);
}

}  // namespace leat
