// SPDX-License-Identifier: Apache-2.0
// ChangeCrier: publishes invalidations found by this worker to all other workers, which pass them
// to their clients. Changes within `gather` go in one request. A slow worker does not delay the
// others; its invalidations are queued and resent while it is a member. A long queue is reduced to
// directories, then to "all may have changed" (GatheredChanges). Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "model/worker_id.h"
#include "peer/change_log.h"
#include "peer/gathered_changes.h"
#include "runtime/activity.h"
#include "runtime/executor.h"

namespace leat {

struct ChangeCrierOptions {
  // Returns all other workers, including those without a lease: clients may still follow them.
  std::function<std::vector<WorkerId>()> others{};
  std::function<Task<Result<>>(Context, WorkerId, PeerChanges)> tell{};
  Clock::duration gather = std::chrono::milliseconds(50);
  Clock::duration patience = std::chrono::seconds(2);  // timeout of one request
  // Back-off before a resend to a worker that did not respond; doubles up to pause_max.
  Clock::duration pause_min = std::chrono::milliseconds(100);
  Clock::duration pause_max = std::chrono::seconds(2);
};

class ChangeCrier {
 public:
  // `log` serves this worker's own clients. All arguments must outlive the object.
  ChangeCrier(ChangeLog& log, ChangeCrierOptions options, Executor& executor)
      : log_(log), options_(std::move(options)), executor_(executor) {}

  // Queues the change and returns at once.
  void cry(PeerChange change);
  // Cancels requests in flight and waits for their end.
  Task<> stop();

 private:
  // Pending invalidations of one worker, and whether a request to it is in flight.
  struct Letter {
    GatheredChanges changes{kGatheredMax};
    bool telling = false;
  };
  static constexpr size_t kGatheredMax = 1'000;  // a key has at most one or two kilobytes

  Task<> tell_all(Activity::Token token);
  Task<> tell_one(Activity::Token token, WorkerId other);
  std::vector<PeerChange> take(const WorkerId& other);
  // Puts unsent changes back. Drops them if `other` is no longer a member. Returns false if nothing
  // is pending for it.
  bool put_back(const WorkerId& other, std::vector<PeerChange> changes);

  ChangeLog& log_;
  const ChangeCrierOptions options_;
  Executor& executor_;
  Activity activity_;
  std::stop_source stopping_;
  std::mutex mutex_;  // leaf
  GatheredChanges waiting_{kGatheredMax};
  bool gathering_ = false;
  std::map<WorkerId, Letter> letters_;
};

}  // namespace leat
