// SPDX-License-Identifier: Apache-2.0
// ClusterSource: a cluster's namespace as a Source, for the rooms of a client: names and bytes come
// from whichever workers hold them. Keys are paths of the namespace without the leading slash, so
// one source shows all of the cluster's mounts, as they come and go. Reads only.
//
// Before the map has a view, what is asked waits for it, as long as a request whose workers do not
// answer waits for them (PeerRouterOptions), and is kUnavailable then.
//
// A large file whose owner is a worker of this host is handed over by it where it has all of it:
// open_file() gives what the worker's cache has, and null else.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cluster/cluster_view.h"
#include "peer/handover/file_givers.h"
#include "peer/peer_router.h"
#include "peer/replicas/hedge_plan.h"
#include "source/source.h"

namespace leat {

struct ClusterSourceOptions {
  std::string cluster{};  // what the identity is made of
  std::string name{};     // for people: "leat://10.0.0.1:7480"
  // Why nothing is known of the cluster yet, for messages.
  std::function<std::optional<Status>()> trouble{};
  // Whether changes of names are heard of; null: they are.
  std::function<bool()> hears{};
  PeerRouterOptions router{};
  HedgePlanOptions hedges{};
  // Of this machine, as workers say theirs: its workers are asked before others.
  std::string host_id{};
  // Which replicas are asked is drawn from it, differently by each client; 0: drawn itself.
  uint64_t seed = 0;
  // Outlives it; null: no file is handed over.
  const FileGivers* givers = nullptr;
};

// `map` and `peers` must outlive it.
SourcePtr make_cluster_source(ClusterSourceOptions options, ClusterMap& map,
                              const PeerTable& peers);

// The identity of what a client sees of the cluster of that name.
StoreId cluster_store_id(std::string_view cluster);

}  // namespace leat
