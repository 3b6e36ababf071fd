// SPDX-License-Identifier: Apache-2.0
// The environment of a leader's jobs: a catalog of all mounts of the cluster, and the cache of all
// workers. Names come from the workers that own them.
#pragma once

#include <memory>
#include <string>

#include "cluster/cluster_view.h"
#include "jobs/cluster/cluster_job_runner.h"
#include "peer/peer_table.h"
#include "runtime/executor.h"

namespace leat {

struct ClusterJobEnvironmentOptions {
  std::string scratch_directory{};  // for large listings
};

// Follows the view. kUnavailable before there is one. All arguments must outlive it.
Result<std::unique_ptr<JobEnvironment>> make_cluster_job_environment(
    ClusterJobEnvironmentOptions options, ClusterViewSource& views, const PeerTable& peers,
    Executor& executor);

}  // namespace leat
