// SPDX-License-Identifier: Apache-2.0
// What records that are signed with another secret say of this cluster's workers. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"
#include "cluster/signed_record.h"
#include "model/worker_id.h"

namespace leat {

// Workers whose secret is none of ours, at most 100. Their records are not read, so nothing but
// the id is known of them.
std::vector<WorkerId> rejected_workers(const std::vector<RejectedRecord>& records);

// kPermissionDenied where another secret's holders lead the cluster: then it is ours that is wrong.
std::optional<Status> secret_trouble(const std::vector<RejectedRecord>& records);

}  // namespace leat
