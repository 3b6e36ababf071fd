// SPDX-License-Identifier: Apache-2.0
// EpochLoads: loads trees behind the readers of an epoch (EpochListener): one load for each tree,
// while its readers are there. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "jobs/job_table.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "vfs/file_system.h"

namespace leat {

struct EpochLoadsOptions {
  // Readers that were not reported for this time are gone.
  Clock::duration gone_after = std::chrono::seconds(15);
  Clock::duration check_every = std::chrono::seconds(1);
  // A load that has ended walked over all names. A tree that does not fit is read at random for
  // ever, so it is not loaded again before this time, or before ten times the load's duration.
  Clock::duration rest_min = std::chrono::seconds(60);
};

class EpochLoads : public EpochListener {
 public:
  // Both must outlive it; stop() must have ended before its destruction.
  EpochLoads(JobTable& jobs, Executor& executor, EpochLoadsOptions options = {})
      : options_(options), jobs_(jobs), executor_(executor) {}

  bool on_epoch(const std::string& path) override;
  // Starts no more loads. Those that run are ended by JobTable::stop().
  Task<> stop();

 private:
  struct Load {
    uint64_t job = 0;
    Clock::time_point reported;
    Clock::time_point ended = Clock::time_point::max();  // not yet
    Clock::duration took{};
    bool abandoned = false;  // ended because its readers had gone
  };

  bool start_locked(const std::string& path, Clock::time_point now);
  Task<> end_abandoned(Gate::Holder holder);
  // Returns whether any load runs.
  bool check(Clock::time_point now);

  const EpochLoadsOptions options_;
  JobTable& jobs_;
  Executor& executor_;
  Gate gate_;
  std::stop_source stopping_;
  std::mutex mutex_;  // before the job table's
  bool watching_ = false;
  std::map<std::string, Load> loads_;  // by path; also ended ones, until they may start again
};

}  // namespace leat
