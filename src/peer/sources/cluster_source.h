// SPDX-License-Identifier: Apache-2.0
// ClusterSource: a cluster's namespace as a Source for the modules of a client. Workers serve names
// and bytes, and make changes (cluster_writes.h). Keys are namespace paths without the leading
// slash, so one source shows all mounts of the cluster as they come and go.
//
// Until `views` has a view, requests wait for it as long as they wait for workers that do not
// respond (PeerRouterOptions). Then they fail with kUnavailable.
//
// open_file() returns a large file of the owner's cache by fd passing. The owner must be on this
// host and hold the complete file; otherwise the result is null.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cluster/cluster_view.h"
#include "peer/fd_passing/fd_providers.h"
#include "peer/replication/hedge_plan.h"
#include "peer/routing/peer_router.h"
#include "source/source.h"

namespace leat {

struct ClusterSourceOptions {
  std::string cluster{};  // input of the store identity
  std::string name{};     // display name: "leat://10.0.0.1:7480"
  // Returns why no view has arrived yet, for error messages.
  std::function<std::optional<Status>()> trouble{};
  // Returns false while invalidations do not arrive. Null: they always do.
  std::function<bool()> invalidations_live{};
  PeerRouterOptions router{};
  HedgePlanOptions hedging{};
  // Host id of this machine (WorkerInfo::host_id); its workers are preferred.
  std::string host_id{};
  // Seeds the choice of replicas; should differ between clients. 0 draws a random one.
  uint64_t seed = 0;
  // Must outlive the source. Null disables fd passing.
  const FdProviders* fd_providers = nullptr;
};

// `views` and `peers` must outlive the source.
SourcePtr make_cluster_source(ClusterSourceOptions options, ClusterViewSource& views,
                              const PeerTable& peers);

// Returns the store identity of a client's view of the named cluster.
StoreId cluster_store_id(std::string_view cluster);

}  // namespace leat
