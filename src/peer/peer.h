// SPDX-License-Identifier: Apache-2.0
// Peer: a worker, as those who want names and bytes see it: over the network (PeerClient), or this
// process itself. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "model/byte_range.h"
#include "model/file_ref.h"
#include "model/worker_id.h"
#include "peer/copy_request.h"
#include "peer/peer_terms.h"
#include "peer/upkeep.h"
#include "runtime/context.h"
#include "runtime/task.h"
#include "source/source.h"

namespace leat {

class SnapshotPeer;  // peer/snapshots/snapshot_peer.h

// What goes with each request: by which ring it was sent, and in whose place.
struct PeerRoute {
  int64_t epoch = 0;
  // The first candidate, which does not answer the sender: the receiver serves as if it were that.
  std::optional<WorkerId> instead{};
  // Of a read: the receiver is asked as one of so many first candidates, and gets what it has not
  // from the first. 1: it is not asked beside another one.
  uint32_t replicas = 1;
};

inline PeerRoute route_of(const PeerTerms& terms) {
  return {.epoch = terms.epoch, .instead = terms.instead, .replicas = terms.replicas};
}

struct PeerRead {
  std::string mount{};  // path of the cluster's namespace
  FileRefPtr file{};    // by its own store and key, not by the client's
  ByteRange range{};
  bool only_if_cached = false;  // kNotFound where not all of it is
  PeerRoute route{};
  ReadProgress progress{};  // told of what has come, as in ReadRequest
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
struct PeerUpkeep {
  UpkeepAction action = UpkeepAction::kEnsure;
  std::string mount{};
  FileRefPtr file{};  // as in PeerRead
  ByteRange range{};
  PeerRoute route{};
};

// Likewise: a step of a file's copy to a store.
struct PeerCopy {
  std::string mount{};
  FileRefPtr file{};  // as in PeerRead
  ByteRange range{};  // up to 16 MiB; the next of the file
  CopyGoal goal{};
};

// Whose answer it is.
enum class PeerReach : uint8_t {
  kAnswered,     // the result is the worker's, good or bad
  kNotReached,   // it did not answer; the error says how
  kTurnedAway,   // it lives, and answers nobody now, or not us: it is ending, or full, or no worker
  kMisdirected,  // it is not the one to ask, by the ring of `epoch`
};

// Whether the worker has said something to what was asked.
inline bool was_heard(PeerReach reach) {
  return reach == PeerReach::kAnswered || reach == PeerReach::kMisdirected;
}

template <class T>
struct PeerReply {
  PeerReach reach = PeerReach::kNotReached;
  Result<T> result = error(StatusCode::kUnavailable, "not asked");
  int64_t epoch = 0;
  ReplicaAdvice advice{};
};

class Peer {
 public:
  virtual ~Peer() = default;
  // False while it is not to be asked, since it did not answer (its circuit is open).
  virtual bool usable() const = 0;

  // `into` is as large as the range; not touched any more once the task has ended.
  virtual Task<PeerReply<void>> read(Context context, PeerRead request,
                                     std::span<std::byte> into) = 0;
  virtual Task<PeerReply<ListPage>> list(Context context, PeerList request) = 0;
  virtual Task<PeerReply<SourceObject>> stat(Context context, PeerStat request) = 0;

  // A number of bytes, as the action says.
  virtual Task<PeerReply<uint64_t>> upkeep(Context context, PeerUpkeep request) = 0;
  // Gives up what it holds of these, which are at most kDropFilesMax; the bytes.
  virtual Task<PeerReply<uint64_t>> drop(Context context, std::vector<FileId> files) = 0;
  // All that it holds is compared with its checksums, once for each `job`: begins it, and says
  // after a moment how far it is.
  virtual Task<PeerReply<UpkeepVerify>> verify(Context context, uint64_t job) = 0;
  // Any worker will do for the first step of a file; the others are for the same one.
  virtual Task<PeerReply<CopyStep>> copy(Context context, PeerCopy request) = 0;
  // Its part in the cluster's snapshots, for as long as it is there itself; null: it has none.
  virtual SnapshotPeer* snapshots() { return nullptr; }
};
using PeerPtr = std::shared_ptr<Peer>;

}  // namespace leat
