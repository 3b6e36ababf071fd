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
  // Of stripes for which this worker answers beside their first candidates: its source is these
  // (peer/replicas/replica_source). One of its own, so that `fetcher` waits for no worker, and
  // those who wait for each other's never close a circle. Null: it answers beside nobody.
  Fetcher* replicas = nullptr;
  PageStore* store = nullptr;         // may be null
  HostTarget* target = nullptr;       // what jobs do to it; null where it is
  VerifyRuns* verify_runs = nullptr;  // likewise
  CopyRuns* copy_runs = nullptr;      // null where nothing is copied
  SnapshotPeer* snapshots = nullptr;
  // How the cluster's mount at that path is kept here; null where it is not served.
  std::function<std::shared_ptr<const Policy>(const std::string&)> policy_of;
  // A read found that this version, by its own store and key, is not there any more. May be null.
  std::function<void(const std::string& mount, const FileRefPtr& file)> gone{};
  StripeHeatOptions heat{};
  RingWaitOptions rings{};
};

// Of one read.
inline constexpr uint64_t kOwnReadBytesMax = 16 * kMiB;

// What is there of a read, and what follows it.
struct PeerBytes {
  Bytes first;
  StreamedReadPtr rest;  // null where `first` is all
};

class OwnPeer : public Peer, public FileGiver {
 public:
  // All of `parts` must outlive it.
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

  // As read(), without a copy; what the store has to be asked for as it comes.
  Task<PeerReply<PeerBytes>> read_bytes(Context context, PeerRead request);
  // What is in memory or in the page cache; nothing where there is something to wait for, or to
  // refuse.
  std::optional<Bytes> try_read(const PeerRead& request);
  // Where the bytes lie, for who sends them by the kernel; nothing where they have to be read.
  std::optional<StoredRange> stored(const PeerRead& request);
  // What is to be said with bytes that were answered: how many are to be asked for that stripe.
  ReplicaAdvice advice(const PeerRead& answered);
  // The file itself; kNotFound where it is not complete here, or packed with others.
  Result<std::shared_ptr<BackingFile>> whole_file(const std::string& mount, const FileRef& asked);
  Task<Result<SourceFilePtr>> open(Context context, PeerReadRequest request) override;

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
