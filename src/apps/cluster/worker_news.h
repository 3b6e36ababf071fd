// SPDX-License-Identifier: Apache-2.0
// WorkerNews: what a worker finds changed in stores, and hears of from others: who is told of it.
//
//   this one's catalog found it   → its own clients, all other workers
//   a read found a version gone   → who holds its name asks the store; then as above, once each
//   another worker said so        → its own clients; its catalog believes nothing of it any more
//
// Thread-safe.
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
  Source& files;  // the cluster's, by its paths
  // Something at or below that path of the namespace changed.
  std::function<void(std::string path)> changed{};
};

class WorkerNews {
 public:
  // All of `parts` outlive it, and stop() must have ended before it goes.
  WorkerNews(WorkerNewsParts parts, Executor& executor);

  // For clients of this worker.
  ChangeLog& log() { return log_; }
  // From this worker's catalog.
  void found(const CatalogChange& change);
  // A read of `file`, by its own store and key, found that it is there no more in this version.
  void gone(const std::string& mount, const FileRefPtr& file);
  // From another worker.
  void heard(PeerChanges news);
  // Ends what is under way.
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
  // Versions that were said to be gone, so that readers who go on with one cost nothing: the last.
  std::deque<FileId> told_;
  std::set<FileId> told_set_;
};

}  // namespace leat
