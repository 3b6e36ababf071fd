// SPDX-License-Identifier: Apache-2.0
// InvalidationBroadcaster: publishes invalidations found by this worker to all other workers, which
// pass them to their clients. Those within `gather_time` are sent in one request. A slow worker
// does not delay the others; its invalidations are queued and resent while it is a member. A long
// queue is reduced to directories, then to "all may have changed" (InvalidationBatch). Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "model/worker_id.h"
#include "peer/invalidation/invalidation_batch.h"
#include "peer/invalidation/invalidation_log.h"
#include "runtime/executor.h"
#include "runtime/gate.h"

namespace leat {

struct InvalidationBroadcasterOptions {
  // Returns all other workers, including those without a lease: clients may still follow them.
  std::function<std::vector<WorkerId>()> others{};
  std::function<Task<Result<>>(Context, WorkerId, Invalidations)> send{};
  Clock::duration gather_time = std::chrono::milliseconds(50);
  Clock::duration timeout = std::chrono::seconds(2);  // timeout of one request
  // Back-off before a resend to a worker that did not respond; doubles up to pause_max.
  Clock::duration backoff_min = std::chrono::milliseconds(100);
  Clock::duration backoff_max = std::chrono::seconds(2);
};

class InvalidationBroadcaster {
 public:
  // `log` serves this worker's own clients. All arguments must outlive the object.
  InvalidationBroadcaster(InvalidationLog& log, InvalidationBroadcasterOptions options,
                          Executor& executor)
      : log_(log), options_(std::move(options)), executor_(executor) {}

  // Queues the change and returns at once.
  void publish(Invalidation invalidation);
  // Cancels requests in flight and waits for their end.
  Task<> stop();

 private:
  // Pending invalidations of one worker, and whether a request to it is in flight.
  struct PendingBatch {
    InvalidationBatch batch{kBatchMax};
    bool sending = false;
  };
  static constexpr size_t kBatchMax = 1'000;  // a key has at most one or two kilobytes

  Task<> send_to_all(Gate::Holder token);
  Task<> send_loop(Gate::Holder token, WorkerId other);
  std::vector<Invalidation> take(const WorkerId& other);
  // Puts unsent changes back. Drops them if `other` is no longer a member. Returns false if nothing
  // is pending for it.
  bool put_back(const WorkerId& other, std::vector<Invalidation> unsent);

  InvalidationLog& log_;
  const InvalidationBroadcasterOptions options_;
  Executor& executor_;
  Gate gate_;
  std::stop_source stopping_;
  std::mutex mutex_;  // leaf
  InvalidationBatch gathered_{kBatchMax};
  bool gathering_ = false;
  std::map<WorkerId, PendingBatch> pending_;
};

}  // namespace leat
