// SPDX-License-Identifier: Apache-2.0
#include "peer/peer_router.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "cluster/ring_arrival.h"
#include "peer/snapshots/shared_snapshot.h"
#include "source/io_timeout.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter stood_in("leat_peer_stood_in_total",
                 "Requests that a worker answered in the place of another one");
Counter spread_total("leat_peer_spread_total",
                     "Requests that were answered by another candidate than the first, since "
                     "several answer for what was asked",
                     "", Stability::kExperimental);
Counter misdirected("leat_peer_misdirected_total",
                    "Requests to a worker that did not hold what was asked for", "",
                    Stability::kExperimental);
Counter rounds_in_vain("leat_peer_rounds_in_vain_total",
                       "Times that no worker answered a request, and all were asked again");

constexpr Clock::duration kPauseMax = std::chrono::seconds(1);
// Attempts at the first candidate before a failover, while its circuit is closed. As many
// consecutive failures open the circuit.
constexpr int kFirstAsked = 3;

// Returns the index of the candidate to try; candidates on this host come first.
size_t chosen(const ClusterView& view, const std::vector<WorkerId>& candidates,
              const PeerSpread& spread) {
  std::vector<size_t> near;
  for (size_t i = 0; i < candidates.size() && !spread.host_id.empty(); ++i) {
    const WorkerInfo* worker = view.worker(candidates[i]);
    if (worker != nullptr && worker->host_id == spread.host_id) near.push_back(i);
  }
  const size_t count = near.empty() ? candidates.size() : near.size();
  const size_t at = hash_mix(spread.draw) % count;
  return near.empty() ? at : near[at];
}

// Returns true if the answer may change once the worker's store is back.
bool is_passing(StatusCode code) {
  return code == StatusCode::kUnavailable || code == StatusCode::kThrottled;
}

Status no_answer(const std::string& what, const std::vector<std::string>& failures) {
  return {StatusCode::kUnavailable, fmt::format("no worker of the cluster answers for {}: {}", what,
                                                fmt::join(failures, "; "))};
}

}  // namespace

bool PeerRouter::gives_up(const Context& context, Clock::time_point began) const {
  return !options_.waits(context) || Clock::now() - began > options_.io_timeout;
}

void PeerRouter::note_answer() const {
  if (options_.health != nullptr) options_.health->answered(Clock::now());
}

void PeerRouter::note_silence(Clock::time_point began, const Status& why) const {
  if (options_.health == nullptr) return;
  options_.health->failed(began, Clock::now(), why, waits_text(options_.io_timeout));
}

// One pass over the candidates, and its outcome.
struct PeerRouter::Round {
  bool absent_too = false;              // also try workers without a lease
  bool insists = false;                 // ignore a newer ring that does not arrive
  int64_t newer_epoch = 0;              // ring epoch that another worker has
  std::vector<std::string> failures{};  // one for each worker
};

// Returns the answer. Returns nothing if no candidate responded, the context ended, or a newer ring
// must be waited for.
template <class T>
Task<std::optional<Result<T>>> PeerRouter::ask_around(Context context, PlacementKey key, Ask<T> ask,
                                                      Round* round) const {
  const ClusterViewPtr view = map_.view();
  const std::vector<WorkerId> candidates = view->ring.candidates(key, options_.candidates_max);
  for (const WorkerId& id : candidates) {
    const PeerPtr peer = peers_.find(id);
    const bool there = view->worker(id) != nullptr;
    if (peer == nullptr || (!there && !round->absent_too) || !peer->usable()) {
      round->failures.push_back(
          fmt::format("{} is {}", peers_.name_of(id), there ? "not answering" : "not there"));
      continue;
    }
    PeerRoute route{.epoch = view->ring.epoch()};
    if (id != candidates.front()) route.instead = candidates.front();
    PeerReply<T> reply = co_await ask(peer, route);
    for (int asked = 1; reply.reach == PeerReach::kNotReached && !route.instead; ++asked) {
      if (asked == kFirstAsked || !peer->usable() || !context.check("")) break;
      reply = co_await ask(peer, route);
    }
    if (reply.reach == PeerReach::kMisdirected) {
      misdirected.add();
      round->failures.push_back(
          fmt::format("{} says that another worker is to be asked", peers_.name_of(id)));
      if (reply.epoch > view->ring.epoch() && !round->insists) {
        round->newer_epoch = reply.epoch;
        co_return std::nullopt;
      }
      // This worker is responsible by our ring.
      route.instead = candidates.front();
      reply = co_await ask(peer, route);
    }
    if (reply.reach == PeerReach::kAnswered) {
      if (route.instead) stood_in.add();
      // Lack of room concerns one worker, so the error names it.
      if (!reply.result && reply.result.error().code() == StatusCode::kNoSpace) {
        reply.result = Error(reply.result.error().with_context("worker " + peers_.name_of(id)));
      }
      co_return std::optional<Result<T>>(std::move(reply.result));
    }
    if (!reply.result) {
      round->failures.push_back(
          fmt::format("{}: {}", peers_.name_of(id), reply.result.error().to_string()));
    }
    if (!context.check("a request to the cluster")) co_return std::nullopt;
  }
  if (candidates.empty()) round->failures.emplace_back("the cluster has no workers");
  co_return std::nullopt;
}

PeerPtr PeerRouter::other(PlacementKey key, uint32_t replicas, const PeerPtr& peer) const {
  const ClusterViewPtr view = map_.view();
  for (const WorkerId& id : view->ring.candidates(key, std::min(replicas, kReplicasMax))) {
    PeerPtr found = peers_.find(id);
    if (found == nullptr || found == peer || view->worker(id) == nullptr) continue;
    if (found->usable()) return found;
  }
  return nullptr;
}

// Returns nothing if the first candidate is chosen, or if the replica did not answer. The replica
// may have another ring or be dead; the failed attempt costs nothing else.
template <class T>
Task<std::optional<Result<T>>> PeerRouter::ask_replica(PlacementKey key, Ask<T> ask,
                                                       PeerSpread spread) const {
  const ClusterViewPtr view = map_.view();
  const uint32_t replicas = std::min(spread.replicas, kReplicasMax);
  const std::vector<WorkerId> candidates = view->ring.candidates(key, replicas);
  if (candidates.size() < 2) co_return std::nullopt;
  const size_t at = chosen(*view, candidates, spread);
  if (at == 0 || view->worker(candidates[at]) == nullptr) co_return std::nullopt;
  const PeerPtr peer = peers_.find(candidates[at]);
  if (peer == nullptr || !peer->usable()) co_return std::nullopt;
  const PeerRoute route{.epoch = view->ring.epoch(), .replicas = replicas};
  PeerReply<T> reply = co_await ask(peer, route);
  if (reply.reach != PeerReach::kAnswered) co_return std::nullopt;
  spread_total.add();
  co_return std::optional<Result<T>>(std::move(reply.result));
}

template <class T>
Task<Result<T>> PeerRouter::ask(Context context, PlacementKey key, std::string what, Ask<T> ask,
                                PeerSpread spread) const {
  if (spread.replicas > 1) {
    std::optional<Result<T>> answer = co_await ask_replica<T>(key, ask, spread);
    if (answer) co_return *std::move(answer);
    if (auto alive = context.check("a request to the cluster"); !alive)
      co_return Error(alive.error());
  }
  const Clock::time_point began = Clock::now();
  std::optional<StoreHealth::Waiting> waiting;
  Clock::duration pause = options_.pause_min;
  bool absent_too = false, insists = false;
  while (true) {
    Round round{.absent_too = absent_too, .insists = insists};
    std::optional<Result<T>> answer = co_await ask_around<T>(context, key, ask, &round);
    const bool store_away = answer && !*answer && is_passing(answer->error().code());
    if (answer && (!store_away || gives_up(context, began))) {
      if (!store_away) note_answer();
      co_return *std::move(answer);
    }
    const RegistryRevision seen = map_.view()->revision;
    if (round.newer_epoch != 0) {
      const Context wait = context.with_timeout(options_.ring_wait);
      const ClusterViewPtr view = co_await await_ring(wait, map_, round.newer_epoch);
      insists = view->ring.epoch() < round.newer_epoch;
    } else if (context.check("a request to the cluster")) {
      rounds_in_vain.add();
      note_silence(began, store_away ? answer->error() : no_answer(what, round.failures));
      if (options_.health != nullptr && !waiting) waiting.emplace(options_.health);
      absent_too = true;
      Result<ClusterViewPtr> news = co_await map_.newer(context.with_timeout(pause), seen);
      static_cast<void>(news);
      pause = std::min(pause * 2, kPauseMax);
    }
    if (auto alive = context.check("a request to the cluster");
        !alive || Clock::now() - began > options_.patience_for(context)) {
      if (store_away && alive) co_return *std::move(answer);
      const StatusCode code = alive ? StatusCode::kUnavailable : alive.error().code();
      co_return error(code, no_answer(what, round.failures).message());
    }
  }
}

template Task<Result<void>> PeerRouter::ask(Context, PlacementKey, std::string, Ask<void>,
                                            PeerSpread) const;
template Task<Result<ListPage>> PeerRouter::ask(Context, PlacementKey, std::string, Ask<ListPage>,
                                                PeerSpread) const;
template Task<Result<uint64_t>> PeerRouter::ask(Context, PlacementKey, std::string, Ask<uint64_t>,
                                                PeerSpread) const;
template Task<Result<CopyStep>> PeerRouter::ask(Context, PlacementKey, std::string, Ask<CopyStep>,
                                                PeerSpread) const;
template Task<Result<std::vector<SharedSnapshot>>> PeerRouter::ask(Context, PlacementKey,
                                                                   std::string,
                                                                   Ask<std::vector<SharedSnapshot>>,
                                                                   PeerSpread) const;
template Task<Result<SnapshotBuild>> PeerRouter::ask(Context, PlacementKey, std::string,
                                                     Ask<SnapshotBuild>, PeerSpread) const;
template Task<Result<SourceObject>> PeerRouter::ask(Context, PlacementKey, std::string,
                                                    Ask<SourceObject>, PeerSpread) const;

}  // namespace leat
