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
  // What is known of names at and below the path is asked for anew.
  virtual void forget_names(const std::string& path) = 0;
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
  // A standing job begins so long after what happened, and so long after its last beginning.
  Clock::duration settle = std::chrono::seconds(5);
};

class ClusterJobRunner {
 public:
  // All of `parts` must outlive it, and stop() must have ended before it goes.
  static std::unique_ptr<ClusterJobRunner> start(ClusterJobRunnerParts parts, Executor& executor);
  virtual ~ClusterJobRunner() = default;
  // Something happened at this path of the namespace: a name changed, or a mount came. Told to all,
  // so that whoever leads next knows. Returns at once.
  virtual void note_change(std::string path, bool mounted) = 0;
  // What it runs is left to the next leader.
  virtual Task<> stop() = 0;
};

}  // namespace leat
