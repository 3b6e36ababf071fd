// SPDX-License-Identifier: Apache-2.0
// WorkerWriteService: changes of stores for clients, with this worker's credentials. After a change
// the names of this worker are refreshed and `on_change` is called, before the client has the
// answer. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "cluster/cluster_view.h"
#include "peer/writing/write_peer.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/semaphore.h"
#include "worker/staging/staging_service.h"
#include "worker/writing/write_sessions.h"

namespace leat {

struct WorkerWriteServiceDeps {
  WorkerId self;
  ClusterViewSource& views;
  Catalog& catalog;
  StagingService* staging = nullptr;  // null: no write waits here for its store
  // Called when this key of the mount's store has changed, or may have. It ends in '/' if the names
  // below it are others, too. May be null.
  std::function<void(const std::string& mount, const std::string& key)> on_change{};
};

class WorkerWriteService : public WritePeer {
 public:
  // All of `deps` and `executor` must outlive the object; stop() must have ended before
  // destruction.
  WorkerWriteService(WorkerWriteServiceDeps deps, Executor& executor)
      : deps_(std::move(deps)), sessions_(executor) {}

  Task<PeerReply<SourceObject>> write(Context context, PeerWrite request, PeerRoute route,
                                      std::span<const std::byte> content) override;
  Task<PeerReply<SourceObject>> change(Context context, PeerChange request,
                                       PeerRoute route) override;
  // Waits for changes in progress.
  Task<> stop();

 private:
  // Content of whole objects that is being written; more waits.
  static constexpr uint64_t kContentBytesMax = 128 * kMiB;

  // Whether the change goes through the mount's staging log.
  bool is_staged(const std::string& mount, uint32_t copies) const;
  Task<Result<std::optional<SourceObject>>> write_now(Context context, SourcePtr source,
                                                      PeerWrite request,
                                                      std::span<const std::byte> content);
  Result<SourcePtr> source_of(const ClusterView& view, const std::string& mount,
                              const StoreId& store, const std::vector<std::string>& keys) const;
  Task<Result<SourceObject>> write_whole(Context context, SourcePtr source, PeerWrite request,
                                         std::span<const std::byte> content);
  Task<Result<SourceObject>> change_now(Context context, SourcePtr source, PeerChange request);
  // Makes the result of a change visible everywhere. `whole_trees`: directories have other names in
  // them than before.
  Task<> publish(ClusterViewPtr view, std::string mount, std::vector<std::string> keys,
                 bool whole_trees = false);

  const WorkerWriteServiceDeps deps_;
  Gate gate_;
  WriteSessions sessions_;
  Semaphore content_bytes_{kContentBytesMax};
};

}  // namespace leat
