// SPDX-License-Identifier: Apache-2.0
// PeerChecks: finds out whether the other workers of a cluster accept this one's requests. A worker
// with another secret or clock holds its lease but rejects every request, so only a request shows
// it. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "model/worker_info.h"
#include "peer/client/peer_client.h"
#include "runtime/executor.h"

namespace leat {

struct PeerCheckFailure {
  bool rejected = false;  // true: it rejected us, and `why` says so; false: it did not respond
  Status why;
};

class PeerChecks {
 public:
  using MakeClient = std::function<Result<std::shared_ptr<PeerClient>>(const WorkerInfo&)>;

  // `executor` must outlive the object. No ping_all() may be running at destruction.
  PeerChecks(MakeClient make_client, Executor& executor)
      : make_client_(std::move(make_client)), executor_(executor) {}

  // Pings all workers, kConcurrentMax at a time, and returns after all answers or timeouts
  // (PeerClientOptions::ping_timeout). Logs the begin and the end of a rejection.
  Task<> ping_all(std::vector<WorkerInfo> others);

  // As of the last ping of each worker.
  std::map<WorkerId, PeerCheckFailure> failures() const;
  // Removes the state of all other workers.
  void keep_only(const std::map<WorkerId, WorkerInfo>& workers);

 private:
  static constexpr size_t kConcurrentMax = 64;

  void record(const WorkerInfo& worker, const Result<>& answered);

  const MakeClient make_client_;
  Executor& executor_;
  mutable std::mutex mutex_;  // leaf
  std::map<WorkerId, PeerCheckFailure> failures_;
};

}  // namespace leat
