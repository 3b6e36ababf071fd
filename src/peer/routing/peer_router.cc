// SPDX-License-Identifier: Apache-2.0
#include "peer/routing/peer_router.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "cluster/epoch_wait.h"
#include "source/io_timeout.h"
#include "telemetry/metrics.h"
#include "wire/shared_snapshot.h"

namespace leat {
namespace {

Counter failover_requests("leat_peer_failover_requests_total",
                          "Requests answered by another worker because the owner did not respond");
Counter replica_requests("leat_peer_replica_requests_total",
                         "Requests answered by a replica of a hot stripe", "",
                         Stability::kExperimental);
Counter not_owner_replies("leat_peer_not_owner_received_total",
                          "Replies of workers that are not the owner of the requested data", "",
                          Stability::kExperimental);
Counter retry_rounds("leat_peer_retry_rounds_total",
                     "Rounds in which no worker answered a request, so that all were tried again");

constexpr Clock::duration kBackoffMax = std::chrono::seconds(1);
// Attempts at the owner before a failover, while its circuit is closed. As many
// consecutive failures open the circuit.
constexpr int kOwnerAttemptsMax = 3;

// Returns the index of the candidate to try; candidates on this host come first.
size_t chosen(const ClusterView& view, const std::vector<WorkerId>& candidates,
              const ReplicaSelection& selection) {
  std::vector<size_t> near;
  for (size_t i = 0; i < candidates.size() && !selection.host_id.empty(); ++i) {
    const WorkerInfo* worker = view.worker(candidates[i]);
    if (worker != nullptr && worker->host_id == selection.host_id) near.push_back(i);
  }
  const size_t count = near.empty() ? candidates.size() : near.size();
  const size_t at = hash_mix(selection.seed) % count;
  return near.empty() ? at : near[at];
}

// Returns true if the answer may change once the worker's store is back.
bool is_transient(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kThrottled;
}

Status no_answer(const std::string& what, const std::vector<std::string>& failures) {
  return {StatusCode::kUnavailable, fmt::format("no worker of the cluster answers for {}: {}", what,
                                                fmt::join(failures, "; "))};
}

}  // namespace

bool PeerRouter::out_of_time(const Context& context, Clock::time_point began) const {
  return !options_.waits(context) || Clock::now() - began > options_.io_timeout;
}

void PeerRouter::record_answer() const {
  if (options_.health != nullptr) options_.health->responded(Clock::now());
}

void PeerRouter::record_no_answer(Clock::time_point began, const Status& why) const {
  if (options_.health == nullptr) return;
  options_.health->failed(began, Clock::now(), why, waits_text(options_.io_timeout));
}

// One pass over the candidates, and its outcome.
struct PeerRouter::Pass {
  bool include_absent = false;          // also try workers without a lease
  bool ignore_newer_epoch = false;      // ignore a newer ring that does not arrive
  int64_t newer_epoch = 0;              // ring epoch that another worker has
  std::vector<std::string> failures{};  // one for each worker
};

// Returns the answer. Returns nothing if no candidate responded, the context ended, or a newer ring
// must be waited for.
template <class T>
Task<std::optional<Result<T>>> PeerRouter::try_candidates(Context context, PlacementKey key,
                                                          Attempt<T> attempt, Pass* pass) const {
  const ClusterViewPtr view = views_.view();
  const std::vector<WorkerId> candidates = view->ring.candidates(key, options_.candidates_max);
  for (const WorkerId& id : candidates) {
    const PeerPtr peer = peers_.find(id);
    const bool there = view->worker(id) != nullptr;
    if (peer == nullptr || (!there && !pass->include_absent) || !peer->usable()) {
      pass->failures.push_back(
          fmt::format("{} is {}", peers_.name_of(id), there ? "not answering" : "not there"));
      continue;
    }
    PeerRoute route{.epoch = view->ring.epoch()};
    if (id != candidates.front()) route.failover_for = candidates.front();
    PeerReply<T> reply = co_await attempt(peer, route);
    for (int attempts = 1; reply.outcome == PeerOutcome::kUnreachable && !route.failover_for;
         ++attempts) {
      if (attempts == kOwnerAttemptsMax || !peer->usable() || !context.check("")) break;
      reply = co_await attempt(peer, route);
    }
    if (reply.outcome == PeerOutcome::kNotOwner) {
      not_owner_replies.add();
      pass->failures.push_back(fmt::format("{} is not the owner", peers_.name_of(id)));
      if (reply.epoch > view->ring.epoch() && !pass->ignore_newer_epoch) {
        pass->newer_epoch = reply.epoch;
        co_return std::nullopt;
      }
      // This worker is responsible by our ring.
      route.failover_for = candidates.front();
      reply = co_await attempt(peer, route);
    }
    if (reply.outcome == PeerOutcome::kAnswered) {
      if (route.failover_for) failover_requests.add();
      // Lack of room concerns one worker, so the error names it.
      if (!reply.result && reply.result.error().code() == StatusCode::kNoSpace) {
        reply.result = Error(reply.result.error().with_context("worker " + peers_.name_of(id)));
      }
      co_return std::optional<Result<T>>(std::move(reply.result));
    }
    if (!reply.result) {
      pass->failures.push_back(
          fmt::format("{}: {}", peers_.name_of(id), reply.result.error().to_string()));
    }
    if (!context.check("a request to the cluster")) co_return std::nullopt;
  }
  if (candidates.empty()) pass->failures.emplace_back("the cluster has no workers");
  co_return std::nullopt;
}

PeerPtr PeerRouter::other_replica(PlacementKey key, uint32_t replicas, const PeerPtr& peer) const {
  const ClusterViewPtr view = views_.view();
  for (const WorkerId& id : view->ring.candidates(key, std::min(replicas, kReplicasMax))) {
    PeerPtr found = peers_.find(id);
    if (found == nullptr || found == peer || view->worker(id) == nullptr) continue;
    if (found->usable()) return found;
  }
  return nullptr;
}

// Returns nothing if the owner is chosen, or if the replica did not answer. The replica
// may have another ring or be dead; the failed attempt costs nothing else.
template <class T>
Task<std::optional<Result<T>>> PeerRouter::try_replica(PlacementKey key, Attempt<T> attempt,
                                                       ReplicaSelection selection) const {
  const ClusterViewPtr view = views_.view();
  const uint32_t replicas = std::min(selection.replicas, kReplicasMax);
  const std::vector<WorkerId> candidates = view->ring.candidates(key, replicas);
  if (candidates.size() < 2) co_return std::nullopt;
  const size_t at = chosen(*view, candidates, selection);
  if (at == 0 || view->worker(candidates[at]) == nullptr) co_return std::nullopt;
  const PeerPtr peer = peers_.find(candidates[at]);
  if (peer == nullptr || !peer->usable()) co_return std::nullopt;
  const PeerRoute route{.epoch = view->ring.epoch(), .replicas = replicas};
  PeerReply<T> reply = co_await attempt(peer, route);
  if (reply.outcome != PeerOutcome::kAnswered) co_return std::nullopt;
  replica_requests.add();
  co_return std::optional<Result<T>>(std::move(reply.result));
}

template <class T>
Task<Result<T>> PeerRouter::request(Context context, PlacementKey key, std::string what,
                                    Attempt<T> attempt, ReplicaSelection selection) const {
  if (selection.replicas > 1) {
    std::optional<Result<T>> answer = co_await try_replica<T>(key, attempt, selection);
    if (answer) co_return *std::move(answer);
    if (auto alive = context.check("a request to the cluster"); !alive)
      co_return Error(alive.error());
  }
  const Clock::time_point began = Clock::now();
  std::optional<StoreHealth::Waiting> waiting;
  Clock::duration backoff = options_.backoff_min;
  bool include_absent = false, ignore_newer_epoch = false;
  while (true) {
    Pass pass{.include_absent = include_absent, .ignore_newer_epoch = ignore_newer_epoch};
    std::optional<Result<T>> answer = co_await try_candidates<T>(context, key, attempt, &pass);
    const bool store_down = answer && !*answer && is_transient(answer->error().code());
    if (answer && (!store_down || out_of_time(context, began))) {
      if (!store_down) record_answer();
      co_return *std::move(answer);
    }
    const RegistryRevision seen = views_.view()->revision;
    if (pass.newer_epoch != 0) {
      const Context wait = context.with_timeout(options_.epoch_timeout);
      const ClusterViewPtr view = co_await wait_for_ring_epoch(wait, views_, pass.newer_epoch);
      ignore_newer_epoch = view->ring.epoch() < pass.newer_epoch;
    } else if (context.check("a request to the cluster")) {
      retry_rounds.add();
      record_no_answer(began, store_down ? answer->error() : no_answer(what, pass.failures));
      if (options_.health != nullptr && !waiting) waiting.emplace(options_.health);
      include_absent = true;
      Result<ClusterViewPtr> newer = co_await views_.newer(context.with_timeout(backoff), seen);
      static_cast<void>(newer);
      backoff = std::min(backoff * 2, kBackoffMax);
    }
    if (auto alive = context.check("a request to the cluster");
        !alive || Clock::now() - began > options_.timeout_for(context)) {
      if (store_down && alive) co_return *std::move(answer);
      const StatusCode code = alive ? StatusCode::kUnavailable : alive.error().code();
      co_return error(code, no_answer(what, pass.failures).message());
    }
  }
}

template Task<Result<void>> PeerRouter::request(Context, PlacementKey, std::string, Attempt<void>,
                                                ReplicaSelection) const;
template Task<Result<ListPage>> PeerRouter::request(Context, PlacementKey, std::string,
                                                    Attempt<ListPage>, ReplicaSelection) const;
template Task<Result<uint64_t>> PeerRouter::request(Context, PlacementKey, std::string,
                                                    Attempt<uint64_t>, ReplicaSelection) const;
template Task<Result<CopyStep>> PeerRouter::request(Context, PlacementKey, std::string,
                                                    Attempt<CopyStep>, ReplicaSelection) const;
template Task<Result<std::vector<SharedSnapshot>>> PeerRouter::request(
    Context, PlacementKey, std::string, Attempt<std::vector<SharedSnapshot>>,
    ReplicaSelection) const;
template Task<Result<SnapshotBuild>> PeerRouter::request(Context, PlacementKey, std::string,
                                                         Attempt<SnapshotBuild>,
                                                         ReplicaSelection) const;
template Task<Result<SourceObject>> PeerRouter::request(Context, PlacementKey, std::string,
                                                        Attempt<SourceObject>,
                                                        ReplicaSelection) const;

}  // namespace leat
