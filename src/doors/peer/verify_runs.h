// SPDX-License-Identifier: Apache-2.0
// VerifyRuns: verifications of this worker's whole cache, one for each requesting job. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "jobs/cache_target.h"
#include "peer/upkeep.h"
#include "runtime/activity.h"
#include "runtime/executor.h"
#include "runtime/shared_result.h"

namespace leat {

class VerifyRuns {
 public:
  // Both must outlive the object; stop() must have ended before destruction.
  VerifyRuns(CacheTarget& target, Executor& executor) : target_(target), executor_(executor) {}

  // Starts the job's verification, or waits a moment for the end of a running one; returns its
  // progress. A run without a request for a minute is ended. Returns kBusy while other runs are in
  // progress.
  Task<Result<UpkeepVerify>> look(Context context, uint64_t job);
  Task<> stop();

 private:
  struct Run {
    std::mutex mutex;  // leaf
    UpkeepVerify state;
    Clock::time_point asked;
    std::stop_source stopping;
    const std::shared_ptr<SharedResult<bool>> ended = SharedResult<bool>::make();
  };
  using RunPtr = std::shared_ptr<Run>;

  Result<RunPtr> run_of(uint64_t job, std::optional<Activity::Token>* begun);
  static Task<> verify(Activity::Token token, CacheTarget* target, RunPtr run, uint64_t job);

  CacheTarget& target_;
  Executor& executor_;
  Activity activity_;
  std::mutex mutex_;  // before a run's
  std::map<uint64_t, RunPtr> runs_;
};

}  // namespace leat
