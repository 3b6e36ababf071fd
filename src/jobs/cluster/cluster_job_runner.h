// SPDX-License-Identifier: Apache-2.0
// ClusterJobRunner: does a cluster's jobs as long as this process leads. One whose leader was lost
// is begun again by the next: what is there already costs a look each. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/election.h"
#include "jobs/cluster/cluster_job_book.h"
#include "jobs/job_table.h"

namespace leat {

// Where a leader's jobs run: the names and the cache of the whole cluster.
class JobStage {
 public:
  virtual ~JobStage() = default;
  virtual JobTable& jobs() = 0;
  // Ends its jobs as well. Nothing may be called afterwards.
  virtual Task<> stop() = 0;
};

struct ClusterJobRunnerParts {
  Registry& registry;
  Election& election;
  ClusterJobBook& book;
  std::string worker;  // we, in hexadecimal
  // Made when there is something to do. All of the cluster's mounts that are known are in it.
  std::function<Result<std::unique_ptr<JobStage>>()> make_stage;
  size_t ended_max = 100;  // jobs that are remembered
};

class ClusterJobRunner {
 public:
  // All of `parts` must outlive it, and stop() must have ended before it goes.
  static std::unique_ptr<ClusterJobRunner> start(ClusterJobRunnerParts parts, Executor& executor);
  virtual ~ClusterJobRunner() = default;
  // What it runs is left to the next leader.
  virtual Task<> stop() = 0;
};

}  // namespace leat
