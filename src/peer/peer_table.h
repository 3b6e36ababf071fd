// SPDX-License-Identifier: Apache-2.0
// PeerTable: one Peer for each worker that a view names. A worker without a lease stays while the
// ring has it, because the registry may be at fault. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cluster/cluster_view.h"
#include "peer/peer.h"

namespace leat {

class PeerTable {
 public:
  // Creates the Peer of a worker; called again when its address changes.
  using MakePeer = std::function<PeerPtr(const WorkerInfo&)>;
  explicit PeerTable(MakePeer make) : make_(std::move(make)) {}

  void update(const ClusterView& view);
  // Returns all of them, including those without a lease.
  std::vector<WorkerId> ids() const;
  // Returns null for an unknown worker.
  PeerPtr find(const WorkerId& id) const;
  // Returns "trainer-1 (10.0.0.1:7480)", for messages.
  std::string name_of(const WorkerId& id) const;

 private:
  struct Entry {
    WorkerInfo info;
    PeerPtr peer;
  };

  const MakePeer make_;
  mutable std::mutex mutex_;  // leaf, except that `make_` is called under it
  std::map<WorkerId, Entry> peers_;
};

}  // namespace leat
