// SPDX-License-Identifier: Apache-2.0
// ClusterJobRunner: runs a cluster's jobs while this process leads. The next leader restarts the
// jobs of a lost one; each file that is already there costs one check. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/election.h"
#include "jobs/cluster/cluster_job_store.h"
#include "jobs/job_table.h"

namespace leat {

// The environment of a leader's jobs: the names and the cache of the whole cluster.
class JobEnvironment {
 public:
  virtual ~JobEnvironment() = default;
  virtual JobTable& jobs() = 0;
  // Drops cached names at and below the path, so that they are requested again.
  virtual void invalidate_names(const std::string& path) = 0;
  // Ends its jobs as well. No call may follow.
  virtual Task<> stop() = 0;
};

struct ClusterJobRunnerDeps {
  Registry& registry;
  Election& election;
  ClusterJobStore& store;
  std::string worker;  // this worker, in hexadecimal
  // Called when there is work. The environment has all known mounts of the cluster.
  std::function<Result<std::unique_ptr<JobEnvironment>>()> make_environment;
  size_t ended_max = 100;  // ended jobs that are kept
  // Debounce: minimum time from an event, and from the job's last start, to the start of a
  // recurring job.
  Clock::duration debounce = std::chrono::seconds(5);
  // Readers of an epoch that were not reported for this time are gone.
  Clock::duration readers_gone_after = std::chrono::seconds(20);
};

class ClusterJobRunner {
 public:
  // All of `deps` must outlive it. stop() must have ended before its destruction.
  static std::unique_ptr<ClusterJobRunner> start(ClusterJobRunnerDeps deps, Executor& executor);
  virtual ~ClusterJobRunner() = default;
  // Records that a name changed, or a mount appeared, at this path of the namespace. Every worker
  // receives these events, so that any next leader has them. Returns at once.
  virtual void note_change(std::string path, bool mounted) = 0;
  // Leaves running jobs to the next leader.
  virtual Task<> stop() = 0;
};

}  // namespace leat
