// SPDX-License-Identifier: Apache-2.0
// PeerChecks: whether the other workers of a cluster accept this one's requests. A worker whose
// secret or clock differs holds its lease like any other and refuses whatever it is asked, so only
// asking shows it. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "model/worker_info.h"
#include "peer/peer_client.h"
#include "runtime/executor.h"

namespace leat {

struct PeerTrouble {
  bool refuses = false;  // it answers, and says why not; else it does not answer
  Status why;
};

class PeerChecks {
 public:
  using MakeClient = std::function<Result<std::shared_ptr<PeerClient>>(const WorkerInfo&)>;

  // `executor` outlives it, and no ask() is under way when it goes.
  PeerChecks(MakeClient make_client, Executor& executor)
      : make_client_(std::move(make_client)), executor_(executor) {}

  // Pings each of them, kAtOnce at a time, and returns when all have answered or had their time
  // (PeerClientOptions::ping_timeout). A refusal is logged when it begins and when it ends.
  Task<> ask(std::vector<WorkerInfo> others);

  // As of the last ask() of each.
  std::map<WorkerId, PeerTrouble> troubles() const;
  // What is known of workers that are not among these is forgotten.
  void keep_only(const std::map<WorkerId, WorkerInfo>& workers);

 private:
  static constexpr size_t kAtOnce = 64;

  void note(const WorkerInfo& worker, const Result<>& answered);

  const MakeClient make_client_;
  Executor& executor_;
  mutable std::mutex mutex_;  // leaf
  std::map<WorkerId, PeerTrouble> troubles_;
};

}  // namespace leat
