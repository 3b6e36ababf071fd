// SPDX-License-Identifier: Apache-2.0
// HostCache: the PageStore of a host over one or more directories, with the operator's commands.
// Thread-safe.
//
// Each object lives in one directory, chosen from its id and the directories' capacities. So all
// directories fill alike, and adding or removing one moves only its share. A directory with a
// failing disk accepts no new objects (unstable), or gets no requests while it does not work
// (down). Its objects are fetched again meanwhile. It recovers without intervention.
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
  std::string why;         // reason why it is not normal
  PageStoreStats stats{};  // zeros if it never opened
};

// CachedObject: one entry of a listing of the cache.
struct CachedObject {
  FileRef ref;
  uint64_t cached_bytes = 0;
  bool packed = false;
  bool complete = false;    // all of it, durable
  std::string directory{};  // directory that has it
};

struct ObjectPage {
  std::vector<CachedObject> objects;
  std::string next;  // continues the listing; empty after the last page
};

// Work done since the previous step.
struct VerifyStep {
  uint64_t bytes = 0;
  uint64_t objects = 0;
  uint64_t corrupt_blocks = 0;
};

class HostCache : public PageStore {
 public:
  // At least one directory has to open. A misused one fails the whole: locked by another
  // process, not a cache, or of a newer version. `make_disk` is called for each.
  using DiskMaker = std::function<std::shared_ptr<Disk>()>;
  static Task<Result<std::unique_ptr<HostCache>>> open(Context context,
                                                       std::vector<PageStoreOptions> directories,
                                                       Executor& executor, DiskMaker make_disk);

  // PageStore::stats() and pools() cover all directories that are not down.
  virtual std::vector<DirectoryStats> directories() const = 0;
  // Returns the worker id of this host: that of the first open directory. The id was generated when
  // the directory was created, and stays with it on any host.
  virtual WorkerId worker() const = 0;

  // Lists about `limit` objects at a time, from `after` on ("" or a page's `next`; else
  // kInvalidArgument). Objects added or removed meanwhile may be missing; so are small objects of
  // the last second.
  virtual Task<Result<ObjectPage>> objects(Context context, std::string after, size_t limit) = 0;
  // Reads everything from the disks, compares it with its checksums, and drops wrong bytes. Reports
  // at least 256 steps. The context ends it: kCancelled, kTimedOut.
  using StepListener = std::function<void(const VerifyStep&)>;
  virtual Task<Result<>> verify(Context context, StepListener listener) = 0;
  // Evicts at least `bytes` of one pool, or of all unpinned pools, in the normal order of eviction.
  // Returns the bytes evicted.
  virtual Task<uint64_t> evict(std::optional<PoolId> pool, uint64_t bytes) = 0;
};

}  // namespace leat
