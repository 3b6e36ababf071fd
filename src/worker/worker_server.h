// SPDX-License-Identifier: Apache-2.0
// WorkerServer: what serves a worker to other hosts. The composition root chooses it, so a worker
// knows no protocol and can be tested without a network.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "auth/request_verifier.h"
#include "cluster/cluster_view.h"
#include "jobs/cluster/cluster_job_store.h"
#include "peer/invalidation/invalidation_log.h"
#include "runtime/executor.h"
#include "worker/snapshots/worker_snapshot_service.h"
#include "worker/worker_service.h"

namespace leat {

// Parts of the worker; all outlive the server.
struct WorkerServerDeps {
  WorkerService& service;
  ClusterViewSource& views;
  InvalidationLog& invalidations;  // of this worker, for its clients
  RequestVerifier& verifier;
  WorkerSnapshotService& snapshots;
  // Returns whether the view is known to equal the registry's.
  std::function<bool()> view_is_current;
  // Handles invalidations from another worker.
  std::function<void(Invalidations)> on_invalidations;
};

class WorkerServer {
 public:
  virtual ~WorkerServer() = default;
  virtual std::string address() const = 0;    // where it listens, HOST:PORT
  virtual std::string fd_socket() const = 0;  // path of the socket for fd passing; empty: none
  // Accepts requests for jobs from now on. `store` must outlive the server.
  virtual void set_job_store(ClusterJobStore& store) = 0;
  virtual Task<> stop() = 0;
};

// Starts the server. Blocks.
using StartWorkerServer = std::function<Result<std::unique_ptr<WorkerServer>>(
    const WorkerServerDeps& deps, Executor& executor)>;

}  // namespace leat
