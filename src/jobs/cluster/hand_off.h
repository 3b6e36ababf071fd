// SPDX-License-Identifier: Apache-2.0
// HandOff: drains a worker's cache. It walks over the cache and requests that the owner of each
// part by the present ring caches it. The owners read from this worker (HandOverSource), after
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
#include "peer/peer_router.h"
#include "peer/peer_table.h"
#include "runtime/activity.h"
#include "runtime/bandwidth_line.h"
#include "runtime/executor.h"
#include "runtime/semaphore.h"
#include "runtime/shared_result.h"

namespace leat {

struct HandOffState {
  bool ended = false;  // the walk is complete, or was stopped
  bool stopped = false;
  uint64_t objects_total = 0, bytes_total = 0;  // estimate: cached here at the start
  uint64_t objects_done = 0, bytes_done = 0;    // cached by others, or no longer needed
  uint64_t objects_failed = 0;                  // not cached by others
  std::vector<std::string> errors{};            // the first kErrorsKept, and errors of the whole
                                                // run
  uint64_t objects_gone = 0, bytes_gone = 0;    // while it runs: evicted or not stored by others

  static constexpr size_t kErrorsKept = 100;
};

class HandOff {
 public:
  // All must outlive it. stop() must have ended before its destruction.
  HandOff(HostCache& cache, ClusterMap& map, const PeerTable& peers, Executor& executor)
      : cache_(cache), map_(map), router_(map, peers), executor_(executor) {}

  // Starts a run for the present and later rings; ends one in flight. `bandwidth`: bytes a second,
  // 0: no limit.
  Task<> begin(uint64_t bandwidth);
  // Returns nothing if no run was started, or the last one was called off.
  std::optional<HandOffState> state() const;
  // Ends the run; the cache stays here.
  Task<> call_off();
  Task<> stop();

 private:
  struct Run {
    mutable std::mutex mutex;  // leaf
    HandOffState state;
    std::stop_source stopping;
    BandwidthLine line;
    Semaphore objects, pieces;
    const std::shared_ptr<SharedResult<bool>> over = SharedResult<bool>::make();
    explicit Run(uint64_t bandwidth);
  };
  using RunPtr = std::shared_ptr<Run>;

  using Each = Task<> (HandOff::*)(Activity::Token, Semaphore::Permit, RunPtr, CachedObject);

  Task<> run(Activity::Token token, RunPtr run);
  Task<Result<>> go_over(RunPtr run, Each each);
  Task<> give(Activity::Token token, Semaphore::Permit slot, RunPtr run, CachedObject object);
  Task<> look(Activity::Token token, Semaphore::Permit slot, RunPtr run, CachedObject object);
  static bool begin_again(Run& run);
  static uint64_t look_share(const Run& run);
  Task<Result<uint64_t>> ask(RunPtr run, UpkeepAction action, FileRef object);
  Task<Result<uint64_t>> ask_part(RunPtr run, Context context, PeerUpkeep question);
  std::vector<ByteRange> present(const FileRef& file, ByteRange piece);
  static void note(Run& run, const CachedObject& object, const Result<uint64_t>& given);
  static void finish(Run& run, const Result<>& trouble, bool stopped);
  RunPtr current() const;

  HostCache& cache_;
  ClusterMap& map_;
  const PeerRouter router_;
  Executor& executor_;
  Activity activity_;
  mutable std::mutex mutex_;  // taken before a run's
  RunPtr run_;
};

}  // namespace leat
