// SPDX-License-Identifier: Apache-2.0
// Evictor: keeps a cache directory and its pools below their marks, in the background. Thread-safe.
//
// Room comes from pools of lower or equal priority, the lowest first. Within a priority stale
// objects go first, then the oldest file or segment. A cyclic pool (AccessPatternMeter) takes only
// stale objects from pools of equal priority, unless they have much more of the capacity. Pinned
// pools give bytes only if the capacity became less than the used bytes.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/files/file_store.h"
#include "cache/packed/packed_store.h"

namespace leat {

class Evictor : public std::enable_shared_from_this<Evictor> {
 public:
  Evictor(std::shared_ptr<CacheDirectory> directory, std::shared_ptr<FileStore> files,
          std::shared_ptr<PackedStore> packed)
      : directory_(std::move(directory)), files_(std::move(files)), packed_(std::move(packed)) {}

  // Starts an eviction in the background, unless one is running.
  void start();
  // Checks the file system's free space, then evicts from above the high mark down to the low one.
  // Returns true if anything was evicted.
  Task<bool> run();

  // Evicts at least `bytes` of one pool, or of all unpinned pools, on request. Returns the bytes
  // evicted.
  Task<uint64_t> evict_now(PoolPtr of, uint64_t bytes);

  // Evicts objects older than the TTL of their pool.
  Task<> expire();

 private:
  // A pool that needs room.
  struct Demand {
    Priority priority;
    bool cyclic;
    uint64_t used;
  };
  struct Demands {
    std::vector<Demand> pools;
    bool forced;  // more is used than the limit allows
  };
  struct Candidate {
    PoolPtr pool;
    Priority priority;
    bool pinned;
    int64_t birth;  // of the next object to evict; max() if only the open segment is left
  };

  static Task<> run_in_background(std::shared_ptr<Evictor> self);
  Task<> check_free_space();
  Task<uint64_t> evict_within_quotas();
  Task<uint64_t> evict_one(const Demands& demands);
  std::vector<Candidate> candidates(const Demands& demands) const;
  bool may_evict(const Demands& demands, const Candidate& from, bool stale) const;
  Task<uint64_t> evict_from(PoolPtr pool, bool stale);
  Demands take_demands() const;
  std::optional<int64_t> oldest_birth(const Pool& pool) const;

  const std::shared_ptr<CacheDirectory> directory_;
  const std::shared_ptr<FileStore> files_;
  const std::shared_ptr<PackedStore> packed_;
  std::atomic<bool> running_ = false;
  std::atomic<Clock::rep> backoff_until_ = 0;  // end of the pause after a run that freed nothing
};

}  // namespace leat
