// SPDX-License-Identifier: Apache-2.0
// VerifyRuns: this worker's looks at all that its cache holds, one for each job that asks for one.
// Thread-safe.
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
  // Both must outlive it, and stop() must have ended before it goes.
  VerifyRuns(CacheTarget& target, Executor& executor) : target_(target), executor_(executor) {}

  // Begins the job's look, or, where it has begun, waits a moment for its end; says how far it is.
  // One that nobody asked about for a minute is ended. kBusy while others are under way.
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
