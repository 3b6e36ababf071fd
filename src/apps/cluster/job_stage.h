// SPDX-License-Identifier: Apache-2.0
// Where a leader's jobs run: a catalog of all of the cluster's mounts, whose names come from the
// workers that hold them, and the cache of them all.
#pragma once

#include <memory>
#include <string>

#include "cluster/cluster_view.h"
#include "jobs/cluster/cluster_job_runner.h"
#include "peer/peer_table.h"
#include "runtime/executor.h"

namespace leat {

struct JobStageOptions {
  std::string scratch_directory{};  // of large listings
};

// Follows the view. kUnavailable before there is one. All must outlive it.
Result<std::unique_ptr<JobStage>> make_job_stage(JobStageOptions options, ClusterMap& map,
                                                 const PeerTable& peers, Executor& executor);

}  // namespace leat
