// SPDX-License-Identifier: Apache-2.0
// WorkerService: the service of a worker, for itself and, through PeerServer, for others: names
// from its catalog, bytes from its fetcher, within its responsibility. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "cache/page_store.h"
#include "catalog/catalog.h"
#include "cluster/cluster_view.h"
#include "fetch/fetcher.h"
#include "jobs/local_job_cache.h"
#include "peer/fd_passing/fd_provider.h"
#include "peer/peer.h"
#include "peer/replication/hot_stripe_tracker.h"
#include "peer/snapshots/snapshot_peer.h"
#include "peer/staging/staging_peer.h"
#include "peer/writing/write_peer.h"
#include "worker/copy_sessions.h"
#include "worker/epoch_waiter.h"
#include "worker/verify_sessions.h"

namespace leat {

struct WorkerServiceDeps {
  WorkerId self;
  ClusterViewSource& views;
  Catalog& catalog;
  Fetcher& fetcher;
  // Fetcher for stripes that this worker serves as a replica; its source is the earlier candidates
  // (peer/replicas/replica_source). It is separate, so that `fetcher` never waits for a worker and
  // no cycle of waits can form. Null: no replica reads.
  Fetcher* replicas = nullptr;
  PageStore* store = nullptr;                 // may be null
  LocalJobCache* job_cache = nullptr;         // cache operations of jobs; null if unsupported
  VerifySessions* verify_sessions = nullptr;  // same
  CopySessions* copy_sessions = nullptr;      // null if copies are unsupported
  SnapshotPeer* snapshots = nullptr;
  WritePeer* writes = nullptr;     // null: no changes of stores
  StagingPeer* staging = nullptr;  // null: no staged changes
  // Returns the cache policy of the cluster mount at that path; null if the mount is not served.
  std::function<std::shared_ptr<const Policy>(const std::string&)> policy_of;
  // Called when a read finds that this version, with the store's own id and key, no longer exists.
  // May be null.
  std::function<void(const std::string& mount, const FileRefPtr& file)> on_version_gone{};
  HotStripeTrackerOptions heat{};
  EpochWaiterOptions epochs{};
};

// Largest range of one read.
inline constexpr uint64_t kServiceReadBytesMax = 16 * kMiB;

// The first bytes of a read, and the stream of the rest.
struct PeerBytes {
  Bytes first;
  StreamedReadPtr rest;       // null if `first` is complete
  bool missed_cache = false;  // the bytes were not here, and are to be
};

class WorkerService : public Peer, public FdProvider {
 public:
  // All of `deps` must outlive the object.
  explicit WorkerService(WorkerServiceDeps deps)
      : deps_(std::move(deps)), heat_(deps_.heat), epochs_(deps_.views, deps_.epochs) {}

  bool usable() const override { return true; }
  SnapshotPeer* snapshots() override { return deps_.snapshots; }
  WritePeer* writes() override { return deps_.writes; }
  StagingPeer* staging() override { return deps_.staging; }
  Task<PeerReply<void>> read(Context context, PeerRead request, std::span<std::byte> into) override;
  Task<PeerReply<ListPage>> list(Context context, PeerList request) override;
  Task<PeerReply<SourceObject>> stat(Context context, PeerStat request) override;
  Task<PeerReply<uint64_t>> cache_op(Context context, PeerCacheOp request) override;
  Task<PeerReply<uint64_t>> drop(Context context, std::vector<FileId> files) override;
  Task<PeerReply<VerifyProgress>> verify(Context context, uint64_t job) override;
  Task<PeerReply<CopyStep>> copy(Context context, PeerCopy request) override;

  // As read(), without a copy; streams what comes from the store.
  Task<PeerReply<PeerBytes>> read_bytes(Context context, PeerRead request);
  // Returns bytes from memory or the page cache; nothing if the read would wait or be rejected.
  std::optional<Bytes> try_read(const PeerRead& request);
  // Returns where the bytes are stored, for sendfile; nothing if they must be read.
  std::optional<SendfileRange> stored(const PeerRead& request);
  // Returns the replica advice to send with a read's bytes.
  ReplicaHint advice(const PeerRead& answered);
  // Returns the file for fd passing; kNotFound if it is incomplete here, or packed with others.
  Result<std::shared_ptr<BackingFile>> whole_file(const std::string& mount,
                                                  const FileRef& requested);
  Task<Result<SourceFilePtr>> open(Context context, PeerReadRequest request) override;

 private:
  // Target of a request: a mount that is served here, and a key of its store below its prefix.
  struct Target {
    ClusterViewPtr view;
    const ClusterMount* mount;
    std::shared_ptr<const Policy> policy;
    std::string path;  // in the namespace
  };
  Result<Target> resolve(const std::string& mount, const StoreId& store,
                         std::string_view key) const;
  Result<FileRefPtr> local_ref(const std::string& mount, const FileRef& requested,
                               ByteRange range) const;
  Result<FileRefPtr> local_ref(const std::string& mount, const FileRef& requested) const;
  bool is_responsible(const ClusterView& view, PlacementKey key, const PeerRoute& route) const;
  bool is_replica(const ClusterView& view, PlacementKey key, const PeerRoute& route) const;
  Task<Result<PeerBytes>> fetch(Context context, FileRefPtr file, ByteRange range, bool here,
                                bool as_replica);
  bool is_cacheable(const FileRef& file) const;
  Task<Result<PeerBytes>> fetch_by(Fetcher& fetcher, Context context, FileRefPtr file,
                                   ByteRange range, bool here);
  template <class T>
  PeerReply<T> not_owner(const ClusterView& view) const;
  Task<Result<ListPage>> list_page(Context context, Target target, PeerList request);
  Task<Result<SourceObject>> stat_object(Context context, Target target, PeerStat request);
  Task<Result<SourceObject>> stat_now(Context context, Target target, std::string mount,
                                      std::string key);

  const WorkerServiceDeps deps_;
  HotStripeTracker heat_;
  EpochWaiter epochs_;
};

}  // namespace leat
