// SPDX-License-Identifier: Apache-2.0
// DrainJob: drains a worker's cache. It walks over the cache and requests that the owner of each
// part by the present ring caches it. The owners read from this worker (PreviousOwnerSource), after
// readers, which have priority. One run at a time. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cache/host_cache.h"
#include "cluster/cluster_view.h"
#include "peer/peer_table.h"
#include "peer/routing/peer_router.h"
#include "runtime/bandwidth_limiter.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/semaphore.h"
#include "runtime/shared_promise.h"

namespace leat {

struct DrainProgress {
  bool ended = false;  // the walk is complete, or was stopped
  bool stopped = false;
  uint64_t objects_total = 0, bytes_total = 0;  // estimate: cached here at the start
  uint64_t objects_done = 0, bytes_done = 0;    // cached by others, or no longer needed
  uint64_t objects_failed = 0;                  // not cached by others
  std::vector<std::string> errors{};            // the first kErrorsMax, and errors of the whole
                                                // run
  uint64_t objects_missing = 0,
           bytes_missing = 0;  // while it runs: evicted or not stored by others

  static constexpr size_t kErrorsMax = 100;
};

class DrainJob {
 public:
  // All must outlive it. stop() must have ended before its destruction.
  DrainJob(HostCache& cache, ClusterViewSource& views, const PeerTable& peers, Executor& executor)
      : cache_(cache), views_(views), router_(views, peers), executor_(executor) {}

  // Starts a run for the present and later rings; ends one in flight. `bandwidth`: bytes a second,
  // 0: no limit.
  Task<> begin(uint64_t bandwidth);
  // Returns nothing if no run was started, or the last one was cancelled.
  std::optional<DrainProgress> progress() const;
  // Ends the run; the cache stays here.
  Task<> cancel();
  Task<> stop();

 private:
  struct Run {
    mutable std::mutex mutex;  // leaf
    DrainProgress progress;
    std::stop_source stopping;
    BandwidthLimiter limiter;
    Semaphore objects, pieces;
    const std::shared_ptr<SharedPromise<bool>> ended = SharedPromise<bool>::make();
    explicit Run(uint64_t bandwidth);
  };
  using RunPtr = std::shared_ptr<Run>;

  using ObjectStep = Task<> (DrainJob::*)(Gate::Holder, Semaphore::Permit, RunPtr, CachedObject);

  Task<> run(Gate::Holder holder, RunPtr run);
  Task<Result<>> for_each_object(RunPtr run, ObjectStep each);
  Task<> transfer(Gate::Holder holder, Semaphore::Permit slot, RunPtr run, CachedObject object);
  Task<> check(Gate::Holder holder, Semaphore::Permit slot, RunPtr run, CachedObject object);
  static bool begin_round(Run& run);
  static uint64_t sample_share(const Run& run);
  Task<Result<uint64_t>> request(RunPtr run, CacheOp action, FileRef object);
  Task<Result<uint64_t>> request_range(RunPtr run, Context context, PeerCacheOp request);
  std::vector<ByteRange> cached_ranges(const FileRef& file, ByteRange piece);
  static void record(Run& run, const CachedObject& object, const Result<uint64_t>& moved);
  static void finish(Run& run, const Result<>& trouble, bool stopped);
  RunPtr current() const;

  HostCache& cache_;
  ClusterViewSource& views_;
  const PeerRouter router_;
  Executor& executor_;
  Gate gate_;
  mutable std::mutex mutex_;  // taken before a run's
  RunPtr run_;
};

}  // namespace leat
