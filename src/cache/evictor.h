// SPDX-License-Identifier: Apache-2.0
// Evictor: keeps a cache directory and its pools below their marks, beside the requests.
// Thread-safe.
//
// Who wants room gets it from pools of lower or equal priority, the lowest first; within a priority
// first what is used no more, then whatever came first of files and segments. A pool that is used
// evenly gets none from equals but what is used no more, and its share of the whole. Pinned pools
// give only where the capacity became less than what is used.
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

  // Begins in the background, unless it is under way.
  void start();
  // Looks at the file system's free space, then evicts from above the high mark to the low one.
  // Returns whether anything went.
  Task<bool> run();

  // At least that many bytes of one pool, or of all but what is pinned, because somebody wants it
  // so. Returns how many went.
  Task<uint64_t> evict_now(PoolPtr of, uint64_t bytes);

  // What is older than its pool lets it be.
  Task<> expire();

 private:
  // On whose behalf room is made.
  struct Demand {
    Priority priority;
    bool even;
    uint64_t used;
  };
  struct Demands {
    std::vector<Demand> pools;
    bool forced;  // more is used than may be
  };
  struct Candidate {
    PoolPtr pool;
    Priority priority;
    bool pinned;
    int64_t birth;  // of what would go first; max() where only the segment being filled is left
  };

  static Task<> run_in_background(std::shared_ptr<Evictor> self);
  Task<> look_at_free_space();
  Task<uint64_t> evict_within_quotas();
  Task<uint64_t> evict_one(const Demands& demands);
  std::vector<Candidate> candidates(const Demands& demands) const;
  bool may_take(const Demands& demands, const Candidate& from, bool stale) const;
  Task<uint64_t> evict_from(PoolPtr pool, bool stale);
  Demands take_demands() const;
  std::optional<int64_t> oldest_birth(const Pool& pool) const;

  const std::shared_ptr<CacheDirectory> directory_;
  const std::shared_ptr<FileStore> files_;
  const std::shared_ptr<PackedStore> packed_;
  std::atomic<bool> running_ = false;
  std::atomic<Clock::rep> in_vain_until_ = 0;  // nothing could be evicted; asked again then
};

}  // namespace leat
