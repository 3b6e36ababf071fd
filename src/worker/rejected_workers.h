// SPDX-License-Identifier: Apache-2.0
// Interprets records that are signed with another secret. Pure functions.
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"
#include "cluster/signed_record.h"
#include "model/worker_id.h"

namespace leat {

// Returns workers with another secret than ours, at most 100. Their records are not read, so only
// the id is known.
std::vector<WorkerId> rejected_workers(const std::vector<RejectedRecord>& records);

// kPermissionDenied if workers with another secret lead the cluster: then our secret is the wrong
// one.
std::optional<Status> secret_trouble(const std::vector<RejectedRecord>& records);

}  // namespace leat
