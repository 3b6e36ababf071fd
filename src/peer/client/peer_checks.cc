// SPDX-License-Identifier: Apache-2.0
#include "peer/client/peer_checks.h"

#include <algorithm>
#include <utility>

#include "runtime/shared_promise.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

using Answer = std::shared_ptr<SharedPromise<bool>>;

Counter rejected_total("leat_peer_checks_rejected_total",
                       "Checks that other workers rejected: their secret or clock differs");

Task<> check(std::shared_ptr<PeerClient> client, Answer answer) {
  Result<> good = co_await client->check();
  if (good) {
    answer->set(true);
  } else {
    answer->set(Error(good.error()));
  }
}

}  // namespace

Task<> PeerChecks::ping_all(std::vector<WorkerInfo> others) {
  for (size_t begin = 0; begin < others.size(); begin += kConcurrentMax) {
    const size_t end = std::min(begin + kConcurrentMax, others.size());
    std::vector<std::pair<WorkerInfo, Answer>> pending;
    for (size_t i = begin; i < end; ++i) {
      Result<std::shared_ptr<PeerClient>> client = make_client_(others[i]);
      if (!client) {
        record(others[i], Error(client.error()));
        continue;
      }
      pending.emplace_back(others[i], SharedPromise<bool>::make());
      executor_.spawn(check(*std::move(client), pending.back().second));
    }
    for (const auto& [worker, answer] : pending) {
      Result<bool> answered = co_await answer->wait(Context::background(), "a worker's answer");
      record(worker, answered ? Result<>() : Result<>(Error(answered.error())));
    }
  }
}

void PeerChecks::record(const WorkerInfo& worker, const Result<>& answered) {
  const bool rejects = !answered && answered.error().code() == StatusCode::kPermissionDenied;
  if (rejects) rejected_total.add();
  bool rejected_before = false;
  {
    std::lock_guard lock(mutex_);
    const auto known = failures_.find(worker.id);
    rejected_before = known != failures_.end() && known->second.rejected;
    if (answered) {
      failures_.erase(worker.id);
    } else {
      failures_.insert_or_assign(worker.id, PeerCheckFailure{rejects, answered.error()});
    }
  }
  if (rejects && !rejected_before) {
    log::warning("worker {} at {} refuses the requests of this worker: {}", worker.id.to_hex(),
                 worker.address, answered.error().to_string());
  } else if (rejected_before && answered) {
    log::info("worker {} at {} accepts the requests of this worker again", worker.id.to_hex(),
              worker.address);
  }
}

std::map<WorkerId, PeerCheckFailure> PeerChecks::failures() const {
  std::lock_guard lock(mutex_);
  return failures_;
}

void PeerChecks::keep_only(const std::map<WorkerId, WorkerInfo>& workers) {
  std::lock_guard lock(mutex_);
  std::erase_if(failures_, [&](const auto& one) { return !workers.contains(one.first); });
}

}  // namespace leat
