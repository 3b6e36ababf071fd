// SPDX-License-Identifier: Apache-2.0
// OwnPeer: what this worker answers, to itself and, by way of PeerDoor, to others: names by its
// catalog, bytes by its fetcher, as far as it is the one to ask. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "cache/page_store.h"
#include "catalog/catalog.h"
#include "cluster/cluster_view.h"
#include "doors/peer/verify_runs.h"
#include "fetch/fetcher.h"
#include "jobs/host_target.h"
#include "peer/peer.h"
#include "peer/snapshots/snapshot_peer.h"

namespace leat {

struct OwnPeerParts {
  WorkerId self;
  ClusterMap& map;
  Catalog& catalog;
  Fetcher& fetcher;
  PageStore* store;         // may be null
  HostTarget* target;       // what jobs do to it; null where it is
  VerifyRuns* verify_runs;  // likewise
  SnapshotPeer* snapshots = nullptr;
  // How the cluster's mount at that path is kept here; null where it is not served.
  std::function<std::shared_ptr<const Policy>(const std::string&)> policy_of;
};

// Of one read.
inline constexpr uint64_t kOwnReadBytesMax = 16 * kMiB;

class OwnPeer : public Peer, public SnapshotPeerOwner {
 public:
  // All of `parts` must outlive it.
  explicit OwnPeer(OwnPeerParts parts) : parts_(std::move(parts)) {}

  bool usable() const override { return true; }
  SnapshotPeer* snapshots() override { return parts_.snapshots; }
  Task<PeerReply<void>> read(Context context, PeerRead request, std::span<std::byte> into) override;
  Task<PeerReply<ListPage>> list(Context context, PeerList request) override;
  Task<PeerReply<SourceObject>> stat(Context context, PeerStat request) override;
  Task<PeerReply<uint64_t>> upkeep(Context context, PeerUpkeep request) override;
  Task<PeerReply<uint64_t>> drop(Context context, std::vector<FileId> files) override;
  Task<PeerReply<UpkeepVerify>> verify(Context context, uint64_t job) override;

  // As read(), without a copy.
  Task<PeerReply<Bytes>> read_bytes(Context context, PeerRead request);
  // Where the bytes lie, for who sends them by the kernel; nothing where they have to be read.
  std::optional<StoredRange> stored(const PeerRead& request);

 private:
  // What a request must name: a mount that is served here, and a key of its store below its prefix.
  struct Place {
    ClusterViewPtr view;
    const ClusterMount* mount;
    std::shared_ptr<const Policy> policy;
    std::string path;  // in the namespace
  };
  Result<Place> find(const std::string& mount, const StoreId& store, std::string_view key) const;
  Result<FileRefPtr> own_ref(const std::string& mount, const FileRef& asked, ByteRange range) const;
  bool holds(const ClusterView& view, PlacementKey key, const PeerRoute& route) const;
  template <class T>
  PeerReply<T> misdirected(const ClusterView& view) const;
  Task<Result<ListPage>> list_page(Context context, Place place, PeerList request);
  Task<Result<SourceObject>> stat_object(Context context, Place place, PeerStat request);

  const OwnPeerParts parts_;
};

}  // namespace leat
