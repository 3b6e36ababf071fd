// SPDX-License-Identifier: Apache-2.0
// OwnPeer: the worker's own service, for itself and, through PeerDoor, for others: names from its
// catalog, bytes from its fetcher, within its responsibility. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "cache/page_store.h"
#include "catalog/catalog.h"
#include "cluster/cluster_view.h"
#include "doors/peer/copy_runs.h"
#include "doors/peer/ring_wait.h"
#include "doors/peer/verify_runs.h"
#include "fetch/fetcher.h"
#include "jobs/host_target.h"
#include "peer/handover/file_giver.h"
#include "peer/peer.h"
#include "peer/replicas/stripe_heat.h"
#include "peer/snapshots/snapshot_peer.h"

namespace leat {

struct OwnPeerParts {
  WorkerId self;
  ClusterMap& map;
  Catalog& catalog;
  Fetcher& fetcher;
  // Fetcher for stripes that this worker serves as a replica; its source is the earlier candidates
  // (peer/replicas/replica_source). It is separate, so that `fetcher` never waits for a worker and
  // no cycle of waits can form. Null: no replica reads.
  Fetcher* replicas = nullptr;
  PageStore* store = nullptr;         // may be null
  HostTarget* target = nullptr;       // cache operations of jobs; null if unsupported
  VerifyRuns* verify_runs = nullptr;  // same
  CopyRuns* copy_runs = nullptr;      // null if copies are unsupported
  SnapshotPeer* snapshots = nullptr;
  // Returns the cache policy of the cluster mount at that path; null if the mount is not served.
  std::function<std::shared_ptr<const Policy>(const std::string&)> policy_of;
  // Called when a read finds that this version, with the store's own id and key, no longer exists.
  // May be null.
  std::function<void(const std::string& mount, const FileRefPtr& file)> gone{};
  StripeHeatOptions heat{};
  RingWaitOptions rings{};
};

// Largest range of one read.
inline constexpr uint64_t kOwnReadBytesMax = 16 * kMiB;

// The first bytes of a read, and the stream of the rest.
struct PeerBytes {
  Bytes first;
  StreamedReadPtr rest;  // null if `first` is complete
};

class OwnPeer : public Peer, public FileGiver {
 public:
  // All of `parts` must outlive the object.
  explicit OwnPeer(OwnPeerParts parts)
      : parts_(std::move(parts)), heat_(parts_.heat), rings_(parts_.map, parts_.rings) {}

  bool usable() const override { return true; }
  SnapshotPeer* snapshots() override { return parts_.snapshots; }
  Task<PeerReply<void>> read(Context context, PeerRead request, std::span<std::byte> into) override;
  Task<PeerReply<ListPage>> list(Context context, PeerList request) override;
  Task<PeerReply<SourceObject>> stat(Context context, PeerStat request) override;
  Task<PeerReply<uint64_t>> upkeep(Context context, PeerUpkeep request) override;
  Task<PeerReply<uint64_t>> drop(Context context, std::vector<FileId> files) override;
  Task<PeerReply<UpkeepVerify>> verify(Context context, uint64_t job) override;
  Task<PeerReply<CopyStep>> copy(Context context, PeerCopy request) override;

  // As read(), without a copy; streams what comes from the store.
  Task<PeerReply<PeerBytes>> read_bytes(Context context, PeerRead request);
  // Returns bytes from memory or the page cache; nothing if the read would wait or be refused.
  std::optional<Bytes> try_read(const PeerRead& request);
  // Returns where the bytes are stored, for sendfile; nothing if they must be read.
  std::optional<StoredRange> stored(const PeerRead& request);
  // Returns the replica advice to send with a read's bytes.
  ReplicaAdvice advice(const PeerRead& answered);
  // Returns the file for fd passing; kNotFound if it is incomplete here, or packed with others.
  Result<std::shared_ptr<BackingFile>> whole_file(const std::string& mount, const FileRef& asked);
  Task<Result<SourceFilePtr>> open(Context context, PeerReadRequest request) override;

 private:
  // Target of a request: a mount that is served here, and a key of its store below its prefix.
  struct Place {
    ClusterViewPtr view;
    const ClusterMount* mount;
    std::shared_ptr<const Policy> policy;
    std::string path;  // in the namespace
  };
  Result<Place> find(const std::string& mount, const StoreId& store, std::string_view key) const;
  Result<FileRefPtr> own_ref(const std::string& mount, const FileRef& asked, ByteRange range) const;
  Result<FileRefPtr> own_ref(const std::string& mount, const FileRef& asked) const;
  bool holds(const ClusterView& view, PlacementKey key, const PeerRoute& route) const;
  bool is_replica(const ClusterView& view, PlacementKey key, const PeerRoute& route) const;
  Task<Result<PeerBytes>> fetch(Context context, FileRefPtr file, ByteRange range, bool here,
                                bool beside);
  static Task<Result<PeerBytes>> fetch_by(Fetcher& fetcher, Context context, FileRefPtr file,
                                          ByteRange range, bool here);
  template <class T>
  PeerReply<T> misdirected(const ClusterView& view) const;
  Task<Result<ListPage>> list_page(Context context, Place place, PeerList request);
  Task<Result<SourceObject>> stat_object(Context context, Place place, PeerStat request);
  Task<Result<SourceObject>> stat_now(Context context, Place place, std::string mount,
                                      std::string key);

  const OwnPeerParts parts_;
  StripeHeat heat_;
  RingWait rings_;
};

}  // namespace leat
