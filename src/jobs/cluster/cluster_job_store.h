// SPDX-License-Identifier: Apache-2.0
// ClusterJobStore: the jobs in a cluster's registry. Any worker accepts new jobs and lists jobs;
// the leader runs them (ClusterJobRunner). Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jobs/cluster/cluster_job.h"
#include "runtime/executor.h"

namespace leat {

// Normalises the paths of a job. kInvalidArgument if it cannot be a job of a cluster.
Result<> check_cluster_job_spec(JobSpec& spec);

// Whether it is a load behind readers, of a whole tree and without options.
bool is_epoch_load(const JobSpec& spec);

class ClusterJobStore {
 public:
  // `registry` must outlive it. stop() must have ended before its destruction.
  static std::unique_ptr<ClusterJobStore> start(Registry& registry, Executor& executor);
  virtual ~ClusterJobStore() = default;

  // Returns the jobs as last seen here, by number.
  virtual std::vector<ClusterJob> jobs() const = 0;
  // kNotFound for a job that never existed or was removed.
  virtual Result<ClusterJob> find(uint64_t id) const = 0;
  // Returns when something has changed since revision `seen`, and updates it. Also returns after a
  // short time without a change.
  virtual Task<> wait_for_change(Context context, RegistryRevision* seen) = 0;

  // Adds a job, and returns it before it runs. If a job with this idempotency_key exists, returns
  // that one. A background load reports readers. If another one loads the tree, or has just
  // loaded it, returns that one. kInvalidArgument if it cannot be a job of a cluster.
  virtual Task<Result<ClusterJob>> add(Context context, JobSpec spec, JobSchedule schedule,
                                       std::string principal, std::string idempotency_key = {}) = 0;
  // Requests cancellation, and returns the job as it was. No effect on a job that has ended and
  // does not recur.
  virtual Task<Result<ClusterJob>> cancel(Context context, uint64_t id) = 0;

  virtual Task<> stop() = 0;
};

}  // namespace leat
