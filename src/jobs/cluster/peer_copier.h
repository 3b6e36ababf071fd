// SPDX-License-Identifier: Apache-2.0
// PeerCopier: the workers of a cluster as those who copy files: each file by the one that holds its
// first stripe, or who stands in for it. Files are those of a ClusterSource. Thread-safe.
#pragma once

#include <memory>

#include "cluster/cluster_view.h"
#include "jobs/file_copier.h"
#include "peer/peer_router.h"
#include "peer/peer_table.h"

namespace leat {

class PeerCopier : public FileCopier {
 public:
  // Both must outlive it, and it its copies.
  PeerCopier(ClusterMap& map, const PeerTable& peers) : map_(map), router_(map, peers) {}

  std::unique_ptr<FileCopy> begin(FileRefPtr file, CopyGoal goal) override;

 private:
  class OneCopy;

  ClusterMap& map_;
  const PeerRouter router_;
};

}  // namespace leat
