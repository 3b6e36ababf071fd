// SPDX-License-Identifier: Apache-2.0
// HostCache: the PageStore of a host, over one directory or several, and what its operator asks of
// it. Thread-safe.
//
// Each object lives in one directory; which one follows from its id and the directories'
// capacities, so all fill alike and one more or less moves its share only. A directory whose disk
// fails takes nothing new in (unstable), and is not asked at all while it does not work (down);
// what it held is fetched anew meanwhile. It comes back by itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/page_store.h"
#include "model/worker_id.h"

namespace leat {

inline constexpr size_t kCacheDirectoriesMax = 32;

enum class DirectoryState : uint8_t { kNormal, kUnstable, kDown };
std::string_view to_string(DirectoryState state);

struct DirectoryStats {
  std::string path;
  DirectoryState state = DirectoryState::kNormal;
  std::string why;         // it is not normal
  PageStoreStats stats{};  // zeros for one that never opened
};

// An object as it lies in the cache.
struct CachedObject {
  FileRef ref;
  uint64_t cached_bytes = 0;
  bool packed = false;
  bool complete = false;    // all of it, on disk for good
  std::string directory{};  // that has it
};

struct ObjectPage {
  std::vector<CachedObject> objects;
  std::string next;  // to go on with; empty after the last page
};

// What was done since the step before.
struct VerifyStep {
  uint64_t bytes = 0;
  uint64_t objects = 0;
  uint64_t corrupt_blocks = 0;
};

class HostCache : public PageStore {
 public:
  // At least one of them has to open; one that is used wrongly (locked by another process, not a
  // cache, of a newer version) fails the whole. `make_disk` is called for each.
  using DiskMaker = std::function<std::shared_ptr<Disk>()>;
  static Task<Result<std::unique_ptr<HostCache>>> open(Context context,
                                                       std::vector<PageStoreOptions> directories,
                                                       Executor& executor, DiskMaker make_disk);

  // PageStore::stats() and pools() are those of all directories that are not down.
  virtual std::vector<DirectoryStats> directories() const = 0;
  // The worker that the cache makes of its host: that of the first directory that is open. It was
  // drawn when the directory was made, and stays with it wherever it goes.
  virtual WorkerId worker() const = 0;

  // What is there, about `limit` objects at a time, from `after` on ("" or a page's `next`; else
  // kInvalidArgument). What comes or goes meanwhile may be among them or not; small objects of the
  // last second are not.
  virtual Task<Result<ObjectPage>> objects(Context context, std::string after, size_t limit) = 0;
  // Reads everything from the disks and compares it with its checksums; what is wrong goes. Tells
  // its steps, 256 and more. The context ends it: kCancelled, kTimedOut.
  using StepListener = std::function<void(const VerifyStep&)>;
  virtual Task<Result<>> verify(Context context, StepListener listener) = 0;
  // Evicts at least that many bytes in the order in which they would go for want of room, of one
  // pool or of all; of all: not what is pinned. Returns how many went.
  virtual Task<uint64_t> evict(std::optional<PoolId> pool, uint64_t bytes) = 0;
};

}  // namespace leat
