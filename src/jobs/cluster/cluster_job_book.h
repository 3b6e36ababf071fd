// SPDX-License-Identifier: Apache-2.0
// ClusterJobBook: the jobs of a cluster, as its registry has them: any worker takes orders and
// shows them; its leader does them (ClusterJobRunner). Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jobs/cluster/cluster_job.h"
#include "runtime/executor.h"

namespace leat {

// Makes its paths normal. kInvalidArgument for what can be no job of a cluster.
Result<> check_cluster_order(JobOrder& order);

class ClusterJobBook {
 public:
  // `registry` must outlive it, and stop() must have ended before it goes.
  static std::unique_ptr<ClusterJobBook> start(Registry& registry, Executor& executor);
  virtual ~ClusterJobBook() = default;

  // As far as is known here, by number.
  virtual std::vector<ClusterJob> jobs() const = 0;
  // kNotFound for one that never was or was forgotten.
  virtual Result<ClusterJob> find(uint64_t id) const = 0;
  // Returns when something is not as it was at `seen`, which it sets; soon in any case.
  virtual Task<> changed(Context context, RegistryRevision* seen) = 0;

  // The job as it waits to be done; of a ticket that one has, that one as it is. kInvalidArgument
  // for what can be no job of a cluster.
  virtual Task<Result<ClusterJob>> add(Context context, JobOrder order, JobRepeat repeat,
                                       std::string principal, std::string ticket = {}) = 0;
  // The job as it was; nothing happens to one that has ended and does not stand.
  virtual Task<Result<ClusterJob>> cancel(Context context, uint64_t id) = 0;

  virtual Task<> stop() = 0;
};

}  // namespace leat
