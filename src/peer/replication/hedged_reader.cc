// SPDX-License-Identifier: Apache-2.0
#include "peer/replication/hedged_reader.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/executor.h"
#include "runtime/shared_promise.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter hedges_total("leat_peer_hedges_total",
                     "Hedged reads: also sent to a second worker because the first was slow", "",
                     Stability::kExperimental);
Counter hedges_won("leat_peer_hedges_won_total",
                   "Hedged reads that the second worker answered first", "",
                   Stability::kExperimental);

// Limits of the scan interval. A new read may be due before all reads that were waiting.
constexpr Clock::duration kScanMin = std::chrono::milliseconds(1);
constexpr Clock::duration kScanMax = std::chrono::milliseconds(5);

}  // namespace

// Owned by its read until it leaves the list for a second request.
struct HedgedReader::Race {
  Clock::time_point due;
  SecondPeer second;
  Context context;   // of the caller
  PeerRead request;  // to the first worker
  std::stop_source end_first{}, end_second{};
  // Fields of the second request; must not be read before `ended` is set.
  std::list<RacePtr>::iterator entry{};
  uint64_t offset = 0;  // bytes that had arrived when the second request began
  std::vector<std::byte> bytes{};
  const std::shared_ptr<SharedPromise<bool>> ended = SharedPromise<bool>::make();  // whether it won
};

void HedgedReader::add(RacePtr race, const boost::asio::any_io_executor& executor) {
  bool start = false;
  {
    std::lock_guard lock(mutex_);
    Race& added = *race;
    added.entry = waiting_.insert(waiting_.end(), std::move(race));
    used_ = true;
    start = !std::exchange(scanning_, true);
  }
  if (start) boost::asio::co_spawn(executor, scan_loop(shared_from_this()), terminate_on_exception);
}

bool HedgedReader::remove(const RacePtr& race) {
  std::lock_guard lock(mutex_);
  if (race->entry == waiting_.end()) return false;
  waiting_.erase(race->entry);
  return true;
}

std::vector<HedgedReader::RacePtr> HedgedReader::take_due(std::optional<Clock::duration>* again) {
  std::vector<RacePtr> due;
  std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  Clock::time_point next = now + kScanMax;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const RacePtr& race = *at;
    if (race->due > now) {
      next = std::min(next, race->due);
      ++at;
      continue;
    }
    race->entry = waiting_.end();
    due.push_back(*at);
    at = waiting_.erase(at);
  }
  if (std::exchange(used_, false) || !waiting_.empty()) {
    *again = std::max(next - now, kScanMin);
  } else {
    scanning_ = false;
  }
  return due;
}

Task<> HedgedReader::scan_loop(std::shared_ptr<HedgedReader> self) {
  auto executor = co_await boost::asio::this_coro::executor;
  std::optional<Clock::duration> again = kScanMin;
  while (again) {
    co_await sleep_uncancellable(*std::exchange(again, std::nullopt));
    for (RacePtr& race : self->take_due(&again)) {
      boost::asio::co_spawn(executor, request_second(self, std::move(race)),
                            terminate_on_exception);
    }
  }
}

Task<> HedgedReader::request_second(std::shared_ptr<HedgedReader> self, RacePtr race) {
  bool won = false;
  const PeerPtr peer = race->second();
  if (peer != nullptr && self->plan_.try_take()) {
    hedges_total.add();
    PeerRead request = race->request;
    race->offset = std::min(request.progress.bytes(), request.range.size);
    request.range = {request.range.offset + race->offset, request.range.size - race->offset};
    request.only_if_cached = true;
    request.progress = {};
    race->bytes.resize(request.range.size);
    if (!request.range.empty()) {
      const Context context = race->context.with_cancel(race->end_second.get_token());
      PeerReply<void> reply = co_await peer->read(context, std::move(request), race->bytes);
      won = reply.outcome == PeerOutcome::kAnswered && reply.result.has_value();
    }
  }
  if (won) race->end_first.request_stop();
  race->ended->set(won);
}

Task<HedgedReply> HedgedReader::read(Context context, PeerPtr first, SecondPeer second,
                                     PeerRead request, std::span<std::byte> into) {
  const auto after = plan_.delay(into.size());
  const Clock::time_point begun = Clock::now();
  if (!after) {
    PeerReply<void> reply = co_await first->read(std::move(context), std::move(request), into);
    if (reply.result) plan_.record(into.size(), Clock::now() - begun);
    co_return HedgedReply{std::move(reply)};
  }
  auto race = std::make_shared<Race>(Race{
      .due = begun + *after, .second = std::move(second), .context = context, .request = request});
  const std::stop_callback forward_cancel(context.cancel, [one = race.get()] {
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
  if (reply.result || won) plan_.record(into.size(), Clock::now() - begun);
  if (!won) co_return HedgedReply{std::move(reply)};
  hedges_won.add();
  // More bytes may have arrived since the second request began.
  const uint64_t done = std::max(progress.bytes(), race->offset);
  std::ranges::copy(std::span(race->bytes).subspan(done - race->offset),
                    into.subspan(done).begin());
  progress.report(into.size());
  co_return HedgedReply{.reply = {PeerOutcome::kAnswered, {}, reply.epoch, {}},
                        .from_second = true};
}

}  // namespace leat
