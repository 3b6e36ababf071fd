// SPDX-License-Identifier: Apache-2.0
// VerifySessions: verifications of this worker's whole cache, one for each requesting job.
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "jobs/job_cache.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/shared_promise.h"
#include "wire/cache_op.h"

namespace leat {

class VerifySessions {
 public:
  // Both must outlive the object; stop() must have ended before destruction.
  VerifySessions(JobCache& cache, Executor& executor) : cache_(cache), executor_(executor) {}

  // Starts the job's verification, or waits a moment for the end of a running one; returns its
  // progress. A run without a request for a minute is ended. Returns kBusy while other runs are in
  // progress.
  Task<Result<VerifyProgress>> poll(Context context, uint64_t job);
  Task<> stop();

 private:
  struct Session {
    std::mutex mutex;  // leaf
    VerifyProgress state;
    Clock::time_point last_poll_at;
    std::stop_source stopping;
    const std::shared_ptr<SharedPromise<bool>> ended = SharedPromise<bool>::make();
  };
  using SessionPtr = std::shared_ptr<Session>;

  Result<SessionPtr> session_of(uint64_t job, std::optional<Gate::Holder>* begun);
  static Task<> verify(Gate::Holder holder, JobCache* cache, SessionPtr session, uint64_t job);

  JobCache& cache_;
  Executor& executor_;
  Gate gate_;
  std::mutex mutex_;  // before a run's
  std::map<uint64_t, SessionPtr> sessions_;
};

}  // namespace leat
