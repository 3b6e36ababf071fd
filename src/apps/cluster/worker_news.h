// SPDX-License-Identifier: Apache-2.0
// WorkerNews: forwards a worker's invalidations, from its stores and from other workers.
// Thread-safe.
// - This worker's catalog found a change: to its own clients and all other workers.
// - A read found a version gone: the owner of the name checks the store. Then as above, once each.
// - Another worker sent it: to its own clients. Its catalog drops what it has cached of the path.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "catalog/catalog.h"
#include "cluster/cluster_view.h"
#include "peer/change_crier.h"
#include "peer/change_log.h"
#include "peer/peer_table.h"
#include "runtime/activity.h"
#include "runtime/executor.h"

namespace leat {

struct WorkerNewsParts {
  WorkerId self{};
  ClusterMap& map;
  const PeerTable& peers;
  Catalog& catalog;
  Source& files;  // the cluster's namespace, with its paths
  // Called when something at or below that path of the namespace changed.
  std::function<void(std::string path)> changed{};
};

class WorkerNews {
 public:
  // All of `parts` must outlive it. stop() must have ended before its destruction.
  WorkerNews(WorkerNewsParts parts, Executor& executor);

  // Invalidations for clients of this worker.
  ChangeLog& log() { return log_; }
  // A change that this worker's catalog found.
  void found(const CatalogChange& change);
  // A read of `file`, by its own store and key, found that this version no longer exists.
  void gone(const std::string& mount, const FileRefPtr& file);
  // Invalidations from another worker.
  void heard(PeerChanges news);
  // Ends operations in flight.
  Task<> stop();

 private:
  void note(const PeerChange& change);
  std::vector<WorkerId> others() const;
  static Task<Result<>> tell(const PeerTable& peers, Context context, WorkerId other,
                             PeerChanges news);
  Task<> look_again(Activity::Token token, std::string mount, FileRefPtr file);
  bool first_time(const FileId& file);

  const WorkerNewsParts parts_;
  Executor& executor_;
  Activity activity_;
  std::stop_source stopping_;
  ChangeLog log_;
  ChangeCrier crier_;
  std::mutex mutex_;  // leaf
  // The last versions reported as gone, so that readers that continue with one cause no further
  // requests.
  std::deque<FileId> told_;
  std::set<FileId> told_set_;
};

}  // namespace leat
