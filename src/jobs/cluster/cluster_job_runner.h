// SPDX-License-Identifier: Apache-2.0
// ClusterJobRunner: runs a cluster's jobs while this process leads. The next leader restarts the
// jobs of a lost one; each file that is already there costs one check. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/election.h"
#include "jobs/cluster/cluster_job_book.h"
#include "jobs/job_table.h"

namespace leat {

// The environment of a leader's jobs: the names and the cache of the whole cluster.
class JobStage {
 public:
  virtual ~JobStage() = default;
  virtual JobTable& jobs() = 0;
  // Drops cached names at and below the path, so that they are requested again.
  virtual void forget_names(const std::string& path) = 0;
  // Ends its jobs as well. No call may follow.
  virtual Task<> stop() = 0;
};

struct ClusterJobRunnerParts {
  Registry& registry;
  Election& election;
  ClusterJobBook& book;
  std::string worker;  // this worker, in hexadecimal
  // Called when there is work. The stage has all known mounts of the cluster.
  std::function<Result<std::unique_ptr<JobStage>>()> make_stage;
  size_t ended_max = 100;  // ended jobs that are kept
  // Debounce: minimum time from an event, and from the job's last start, to the start of a
  // recurring job.
  Clock::duration settle = std::chrono::seconds(5);
};

class ClusterJobRunner {
 public:
  // All of `parts` must outlive it. stop() must have ended before its destruction.
  static std::unique_ptr<ClusterJobRunner> start(ClusterJobRunnerParts parts, Executor& executor);
  virtual ~ClusterJobRunner() = default;
  // Records that a name changed, or a mount appeared, at this path of the namespace. Every worker
  // receives these events, so that any next leader has them. Returns at once.
  virtual void note_change(std::string path, bool mounted) = 0;
  // Leaves running jobs to the next leader.
  virtual Task<> stop() = 0;
};

}  // namespace leat
