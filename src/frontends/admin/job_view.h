// SPDX-License-Identifier: Apache-2.0
// Converts jobs between the control socket and their runners, on this host or in a cluster.
#pragma once

#include "frontends/admin/daemon_api.h"
#include "jobs/job.h"
#include "jobs/job_spec.h"

namespace leat {

JobView job_view(const JobInfo& info);
// kInvalidArgument for an unknown kind. The caller sets a snapshot's file.
Result<JobSpec> job_spec_of(const JobRequest& request);

}  // namespace leat
