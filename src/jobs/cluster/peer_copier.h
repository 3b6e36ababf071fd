// SPDX-License-Identifier: Apache-2.0
// PeerCopier: copies files through the workers of a cluster. The owner of a file's first stripe
// copies the file, or a failover worker. Files are those of a ClusterSource. Thread-safe.
#pragma once

#include <memory>

#include "cluster/cluster_view.h"
#include "jobs/file_copier.h"
#include "peer/peer_table.h"
#include "peer/routing/peer_router.h"

namespace leat {

class PeerCopier : public FileCopier {
 public:
  // Both must outlive it, and it must outlive its copies.
  PeerCopier(ClusterViewSource& views, const PeerTable& peers)
      : views_(views), router_(views, peers) {}

  std::unique_ptr<FileCopy> begin(FileRefPtr file, CopySpec spec) override;

 private:
  class OneCopy;

  ClusterViewSource& views_;
  const PeerRouter router_;
};

}  // namespace leat
