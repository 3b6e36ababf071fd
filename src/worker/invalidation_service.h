// SPDX-License-Identifier: Apache-2.0
// InvalidationService: forwards a worker's invalidations, from its stores and from other workers.
// Thread-safe.
//
// A change in this worker's catalog goes to its own clients and to all other workers. If a read
// finds that a version no longer exists, the owner of the name checks the store, once a version. An
// invalidation from another worker goes to this one's clients, and its catalog drops the path.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "catalog/catalog.h"
#include "cluster/cluster_view.h"
#include "peer/invalidation/invalidation_broadcaster.h"
#include "peer/invalidation/invalidation_log.h"
#include "peer/peer_table.h"
#include "runtime/executor.h"
#include "runtime/gate.h"

namespace leat {

struct InvalidationServiceDeps {
  WorkerId self{};
  ClusterViewSource& views;
  const PeerTable& peers;
  Catalog& catalog;
  Source& files;  // the cluster's namespace, with its paths
  // Called when something at or below that path of the namespace changed.
  std::function<void(std::string path)> changed{};
};

class InvalidationService {
 public:
  // All of `deps` must outlive it. stop() must have ended before its destruction.
  InvalidationService(InvalidationServiceDeps deps, Executor& executor);

  // Invalidations for clients of this worker.
  InvalidationLog& log() { return log_; }
  // A change that this worker's catalog found.
  void on_local_change(const CatalogChange& change);
  // A client changed that key of the mount's store through this worker, or may have.
  void on_client_change(const std::string& mount, const std::string& key);
  // A read of `file`, by its own store and key, found that this version no longer exists.
  void on_version_gone(const std::string& mount, const FileRefPtr& file);
  // Invalidations from another worker.
  void on_remote_change(Invalidations invalidations);
  // Ends operations in flight.
  Task<> stop();

 private:
  void note(const Invalidation& change);
  std::vector<WorkerId> others() const;
  static Task<Result<>> send(const PeerTable& peers, Context context, WorkerId other,
                             Invalidations invalidations);
  Task<> refresh_at_owner(Gate::Holder holder, std::string mount, FileRefPtr file);
  bool is_first_report(const FileId& file);

  const InvalidationServiceDeps deps_;
  Executor& executor_;
  Gate gate_;
  std::stop_source stopping_;
  InvalidationLog log_;
  InvalidationBroadcaster broadcaster_;
  std::mutex mutex_;  // leaf
  // The last versions reported as missing, so that readers that continue with one cause no further
  // requests.
  std::deque<FileId> reported_;
  std::set<FileId> reported_set_;
};

}  // namespace leat
