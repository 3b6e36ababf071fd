// SPDX-License-Identifier: Apache-2.0
#include "peer/trust/peer_checks.h"

#include <algorithm>
#include <utility>

#include "runtime/shared_result.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

using Answer = std::shared_ptr<SharedResult<bool>>;

Counter refused_total("leat_peer_checks_refused_total",
                      "Checks of other workers that were refused: their secret or clock differs");

Task<> check(std::shared_ptr<PeerClient> client, Answer answer) {
  Result<> good = co_await client->check();
  if (good) {
    answer->set(true);
  } else {
    answer->set(Error(good.error()));
  }
}

}  // namespace

Task<> PeerChecks::ask(std::vector<WorkerInfo> others) {
  for (size_t begin = 0; begin < others.size(); begin += kAtOnce) {
    const size_t end = std::min(begin + kAtOnce, others.size());
    std::vector<std::pair<WorkerInfo, Answer>> asked;
    for (size_t i = begin; i < end; ++i) {
      Result<std::shared_ptr<PeerClient>> client = make_client_(others[i]);
      if (!client) {
        note(others[i], Error(client.error()));
        continue;
      }
      asked.emplace_back(others[i], SharedResult<bool>::make());
      executor_.spawn(check(*std::move(client), asked.back().second));
    }
    for (const auto& [worker, answer] : asked) {
      Result<bool> answered = co_await answer->wait(Context::background(), "a worker's answer");
      note(worker, answered ? Result<>() : Result<>(Error(answered.error())));
    }
  }
}

void PeerChecks::note(const WorkerInfo& worker, const Result<>& answered) {
  const bool refuses = !answered && answered.error().code() == StatusCode::kPermissionDenied;
  if (refuses) refused_total.add();
  bool refused = false;
  {
    std::lock_guard lock(mutex_);
    const auto known = troubles_.find(worker.id);
    refused = known != troubles_.end() && known->second.refuses;
    if (answered) {
      troubles_.erase(worker.id);
    } else {
      troubles_.insert_or_assign(worker.id, PeerTrouble{refuses, answered.error()});
    }
  }
  if (refuses && !refused) {
    log::warning("worker {} at {} refuses the requests of this worker: {}", worker.id.to_hex(),
                 worker.address, answered.error().to_string());
  } else if (refused && answered) {
    log::info("worker {} at {} accepts the requests of this worker again", worker.id.to_hex(),
              worker.address);
  }
}

std::map<WorkerId, PeerTrouble> PeerChecks::troubles() const {
  std::lock_guard lock(mutex_);
  return troubles_;
}

void PeerChecks::keep_only(const std::map<WorkerId, WorkerInfo>& workers) {
  std::lock_guard lock(mutex_);
  std::erase_if(troubles_, [&](const auto& one) { return !workers.contains(one.first); });
}

}  // namespace leat
