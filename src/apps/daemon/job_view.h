// SPDX-License-Identifier: Apache-2.0
// Jobs between the control socket and those who do them, on this host or in a cluster.
#pragma once

#include "doors/admin/host.h"
#include "jobs/job.h"
#include "jobs/job_order.h"

namespace leat {

JobView job_view(const JobInfo& info);
// kInvalidArgument for a kind that there is not. A snapshot's file is the caller's to say.
Result<JobOrder> order_of(const JobRequest& request);

}  // namespace leat
