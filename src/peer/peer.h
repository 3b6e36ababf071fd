// SPDX-License-Identifier: Apache-2.0
// Peer: a worker that serves names and bytes, over the network (PeerClient) or in this process.
// Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "model/byte_range.h"
#include "model/file_ref.h"
#include "model/worker_id.h"
#include "runtime/context.h"
#include "runtime/task.h"
#include "source/source.h"
#include "wire/cache_op.h"
#include "wire/copy_request.h"
#include "wire/peer_request_header.h"

namespace leat {

class SnapshotPeer;  // peer/snapshots/snapshot_peer.h
class WritePeer;     // peer/writing/write_peer.h
class StagingPeer;   // peer/staging/staging_peer.h

// Concurrent reads of each size that one process sends to all workers. Workers are near, so a few
// times what one of them processes at once is enough, also where the store is far from them.
inline constexpr unsigned kPeerConcurrency = 256;

// Sent with each request: the sender's ring epoch, and why this worker receives it.
struct PeerRoute {
  int64_t epoch = 0;
  // The owner, which does not respond to the sender; the receiver is its failover.
  std::optional<WorkerId> failover_for{};
  // Reads only: the receiver is one of the first `replicas` candidates, and gets uncached bytes
  // from the owner. 1: no replica read.
  uint32_t replicas = 1;
};

inline PeerRoute route_of(const PeerRequestHeader& header) {
  return {.epoch = header.epoch, .failover_for = header.failover_for, .replicas = header.replicas};
}

struct PeerRead {
  std::string mount{};  // path in the cluster's namespace
  FileRefPtr file{};    // with the store's own id and key, not the client's
  ByteRange range{};
  bool only_if_cached = false;  // kNotFound unless all of it is cached
  PeerRoute route{};
  ReadProgress progress{};  // notified of arrived bytes, as in ReadRequest
};

struct PeerList {
  std::string mount{};
  StoreId store{};
  std::string prefix{};  // in the store
  std::string token{};
  Clock::duration age_max{0};
  PeerRoute route{};
};

struct PeerStat {
  std::string mount{};
  StoreId store{};
  std::string key{};
  Clock::duration age_max{0};
  PeerRoute route{};
};

// For jobs.
struct PeerCacheOp {
  CacheOp op = CacheOp::kEnsure;
  std::string mount{};
  FileRefPtr file{};  // as in PeerRead
  ByteRange range{};
  PeerRoute route{};
};

// For jobs: a step of copying a file to a store.
struct PeerCopy {
  std::string mount{};
  FileRefPtr file{};  // as in PeerRead
  ByteRange range{};  // next range of the file, at most 16 MiB
  CopySpec spec{};
};

// How far a request got.
enum class PeerOutcome : uint8_t {
  kAnswered,     // The result is the worker's, success or error.
  kUnreachable,  // The worker did not respond; the error says how.
  kRejected,     // The worker rejects all requests, or ours: shutting down, full, or no worker.
  kNotOwner,     // The worker is not responsible by the ring of `epoch`.
};

// Returns true for an answer from the worker itself, even if it is not responsible.
inline bool responded(PeerOutcome outcome) {
  return outcome == PeerOutcome::kAnswered || outcome == PeerOutcome::kNotOwner;
}

template <class T>
struct PeerReply {
  PeerOutcome outcome = PeerOutcome::kUnreachable;
  Result<T> result = error(StatusCode::kUnavailable, "not sent");
  int64_t epoch = 0;
  ReplicaHint hint{};
  bool missed_cache = false;  // a read: the worker had to wait for the store
  // The worker may have done what was requested, although it did not say so.
  bool maybe_done = false;
};

class Peer {
 public:
  virtual ~Peer() = default;
  // Returns false during the back-off after requests without an answer (open circuit).
  virtual bool usable() const = 0;

  // `into` has the size of the range; it is not touched after the task has ended.
  virtual Task<PeerReply<void>> read(Context context, PeerRead request,
                                     std::span<std::byte> into) = 0;
  virtual Task<PeerReply<ListPage>> list(Context context, PeerList request) = 0;
  virtual Task<PeerReply<SourceObject>> stat(Context context, PeerStat request) = 0;

  // Returns a number of bytes; its meaning depends on the operation.
  virtual Task<PeerReply<uint64_t>> cache_op(Context context, PeerCacheOp request) = 0;
  // Evicts these files, at most kDropFilesMax; returns the bytes.
  virtual Task<PeerReply<uint64_t>> drop(Context context, std::vector<FileId> files) = 0;
  // Compares all cached data with its checksums, once per `job`. Starts the run and returns its
  // progress after a moment.
  virtual Task<PeerReply<VerifyProgress>> verify(Context context, uint64_t job) = 0;
  // The first step of a file may go to any worker; later steps go to the same one.
  virtual Task<PeerReply<CopyStep>> copy(Context context, PeerCopy request) = 0;
  // Returns the worker's part in cluster snapshots, owned by this object; null if it has none.
  virtual SnapshotPeer* snapshots() { return nullptr; }
  // Returns the changes of stores through the worker, owned by this object; null if it takes none.
  virtual WritePeer* writes() { return nullptr; }
  // Returns the worker's part in staged changes, owned by this object; null if it has none.
  virtual StagingPeer* staging() { return nullptr; }
};
using PeerPtr = std::shared_ptr<Peer>;

}  // namespace leat
