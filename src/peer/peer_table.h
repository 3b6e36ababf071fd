// SPDX-License-Identifier: Apache-2.0
// PeerTable: all workers that a view names, each as a Peer. One whose lease is gone stays known for
// as long as the ring has it: it may be the registry that is at fault. Thread-safe.
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
  // What stands for a worker; called again when its address changes.
  using MakePeer = std::function<PeerPtr(const WorkerInfo&)>;
  explicit PeerTable(MakePeer make) : make_(std::move(make)) {}

  void update(const ClusterView& view);
  // All of them, those without a lease included.
  std::vector<WorkerId> known() const;
  // Null for one that was never seen.
  PeerPtr find(const WorkerId& id) const;
  // "trainer-1 (10.0.0.1:7480)", for messages.
  std::string name_of(const WorkerId& id) const;

 private:
  struct Known {
    WorkerInfo info;
    PeerPtr peer;
  };

  const MakePeer make_;
  mutable std::mutex mutex_;  // leaf, but for `make_`
  std::map<WorkerId, Known> peers_;
};

}  // namespace leat
