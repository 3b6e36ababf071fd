// SPDX-License-Identifier: Apache-2.0
#include "peer/replicas/hedged_read.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/executor.h"
#include "runtime/shared_result.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter hedges_total("leat_peer_hedges_total",
                     "Reads that a second worker was asked for, since the first took long", "",
                     Stability::kExperimental);
Counter hedges_won("leat_peer_hedges_won_total",
                   "Of the hedges those that were answered before the first worker did", "",
                   Stability::kExperimental);

// Limits of the scan interval. A new read may be due before all reads that were waiting.
constexpr Clock::duration kLookMin = std::chrono::milliseconds(1);
constexpr Clock::duration kLookMax = std::chrono::milliseconds(5);

}  // namespace

// Owned by its read until it leaves the list for a second request.
struct Hedges::Race {
  Clock::time_point due;
  FindPeer second;
  Context context;   // of the caller
  PeerRead request;  // to the first worker
  std::stop_source end_first{}, end_second{};
  // Fields of the second request; must not be read before `ended` is set.
  std::list<RacePtr>::iterator place{};
  uint64_t begins = 0;  // bytes that had arrived when the second request began
  std::vector<std::byte> bytes{};
  const std::shared_ptr<SharedResult<bool>> ended = SharedResult<bool>::make();  // whether it won
};

void Hedges::add(RacePtr race, const boost::asio::any_io_executor& executor) {
  bool begin = false;
  {
    std::lock_guard lock(mutex_);
    Race& added = *race;
    added.place = waiting_.insert(waiting_.end(), std::move(race));
    used_ = true;
    begin = !std::exchange(looking_, true);
  }
  if (begin) boost::asio::co_spawn(executor, look_after(shared_from_this()), end_process_for);
}

bool Hedges::remove(const RacePtr& race) {
  std::lock_guard lock(mutex_);
  if (race->place == waiting_.end()) return false;
  waiting_.erase(race->place);
  return true;
}

std::vector<Hedges::RacePtr> Hedges::late(std::optional<Clock::duration>* again) {
  std::vector<RacePtr> late;
  std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  Clock::time_point next = now + kLookMax;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const RacePtr& race = *at;
    if (race->due > now) {
      next = std::min(next, race->due);
      ++at;
      continue;
    }
    race->place = waiting_.end();
    late.push_back(*at);
    at = waiting_.erase(at);
  }
  if (std::exchange(used_, false) || !waiting_.empty()) {
    *again = std::max(next - now, kLookMin);
  } else {
    looking_ = false;
  }
  return late;
}

Task<> Hedges::look_after(std::shared_ptr<Hedges> self) {
  auto executor = co_await boost::asio::this_coro::executor;
  std::optional<Clock::duration> again = kLookMin;
  while (again) {
    co_await sleep_through(*std::exchange(again, std::nullopt));
    for (RacePtr& race : self->late(&again)) {
      boost::asio::co_spawn(executor, ask_second(self, std::move(race)), end_process_for);
    }
  }
}

Task<> Hedges::ask_second(std::shared_ptr<Hedges> self, RacePtr race) {
  bool won = false;
  const PeerPtr peer = race->second();
  if (peer != nullptr && self->plan_.take()) {
    hedges_total.add();
    PeerRead asked = race->request;
    race->begins = std::min(asked.progress.bytes(), asked.range.size);
    asked.range = {asked.range.offset + race->begins, asked.range.size - race->begins};
    asked.only_if_cached = true;
    asked.progress = {};
    race->bytes.resize(asked.range.size);
    if (!asked.range.empty()) {
      const Context context = race->context.with_cancel(race->end_second.get_token());
      PeerReply<void> reply = co_await peer->read(context, std::move(asked), race->bytes);
      won = reply.reach == PeerReach::kAnswered && reply.result.has_value();
    }
  }
  if (won) race->end_first.request_stop();
  race->ended->set(won);
}

Task<HedgedReply> Hedges::read(Context context, PeerPtr first, FindPeer second, PeerRead request,
                               std::span<std::byte> into) {
  const auto after = plan_.delay(into.size());
  const Clock::time_point begun = Clock::now();
  if (!after) {
    PeerReply<void> reply = co_await first->read(std::move(context), std::move(request), into);
    if (reply.result) plan_.note(into.size(), Clock::now() - begun);
    co_return HedgedReply{std::move(reply)};
  }
  auto race = std::make_shared<Race>(Race{
      .due = begun + *after, .second = std::move(second), .context = context, .request = request});
  const std::stop_callback passes_on(context.cancel, [one = race.get()] {
    one->end_first.request_stop();
    one->end_second.request_stop();
  });
  add(race, co_await boost::asio::this_coro::executor);
  const ReadProgress progress = request.progress;
  const Context of_first = context.with_cancel(race->end_first.get_token());
  PeerReply<void> reply = co_await first->read(of_first, std::move(request), into);
  bool won = false;
  if (!remove(race)) {
    race->end_second.request_stop();
    Result<bool> ended = co_await race->ended->wait(Context::background(), "the end of a hedge");
    won = ended && *ended && !reply.result;
  }
  if (reply.result || won) plan_.note(into.size(), Clock::now() - begun);
  if (!won) co_return HedgedReply{std::move(reply)};
  hedges_won.add();
  // More bytes may have arrived since the second request began.
  const uint64_t done = std::max(progress.bytes(), race->begins);
  std::ranges::copy(std::span(race->bytes).subspan(done - race->begins),
                    into.subspan(done).begin());
  progress.arrived(into.size());
  co_return HedgedReply{.reply = {PeerReach::kAnswered, {}, reply.epoch, {}}, .of_second = true};
}

}  // namespace leat
