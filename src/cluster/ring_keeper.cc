// SPDX-License-Identifier: Apache-2.0
// Each write is conditional on our leadership and on the ring that was read, so a leader that lost
// its leadership meanwhile writes nothing. The ring is read from the registry before each write:
// the view has its weights, the record its capacities.
#include "cluster/ring_keeper.h"

#include <algorithm>

#include "cluster/cluster_records.h"
#include "cluster/ring_plan.h"
#include "runtime/shared_result.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Poll interval without events: this process may have become leader.
constexpr Clock::duration kLookAgain = std::chrono::seconds(1);

class RingKeeperImpl : public RingKeeper {
 public:
  RingKeeperImpl(Registry& registry, Election& election, ClusterMap& map, RingKeeperOptions options)
      : registry_(registry),
        election_(election),
        map_(map),
        options_(options),
        plan_(options.patience, options.rest) {}

  Task<> stop() override {
    stopping_.request_stop();
    Result<bool> ended = co_await ended_->wait(Context::background(), "the end of a ring's keeper");
    static_cast<void>(ended);
  }

  // Runs until stop().
  Task<> keep() {
    const Context context = Context::background().with_cancel(stopping_.get_token());
    while (!context.cancelled()) {
      const RegistryRevision seen = map_.view()->revision;
      Result<> kept = co_await keep_once(context);
      if (!kept && !context.cancelled()) {
        log::info("the ring was not written: {}", kept.error().to_string());
      }
      Result<ClusterViewPtr> news = co_await map_.newer(context.with_timeout(kLookAgain), seen);
      if (!news) continue;
      Result<> settled = co_await sleep_for(context, options_.settle);
      static_cast<void>(settled);
    }
    ended_->set(true);
  }

 private:
  Task<Result<>> keep_once(Context context) {
    const auto lead = election_.condition();
    if (!lead) {
      plan_ = RingPlan(options_.patience, options_.rest);  // the next leader starts to count again
      co_return Result<>();
    }
    Result<RegistryView> entry = co_await registry_.list(context, std::string(kRingKey));
    if (!entry) co_return Error(entry.error());
    RegistryRevision epoch = 0;
    RingRecord now;
    for (const RegistryEntry& found : entry->entries) {
      if (found.key != kRingKey) continue;
      Result<RingRecord> record = decode_ring(found.value);
      if (!record) co_return Error(record.error());
      now = *std::move(record);
      epoch = found.changed;
    }
    const ClusterViewPtr view = map_.view();
    // Before the first view the workers are unknown.
    if (view->revision == 0) co_return Result<>();
    auto next = plan_.next(now, epoch, view->workers, Clock::now());
    if (!next) co_return Result<>();
    RegistryChange change;
    change.conditions = {*lead, {std::string(kRingKey), epoch}};
    change.puts = {{std::string(kRingKey), encode_ring(*next)}};
    Result<RegistryRevision> written = co_await registry_.commit(context, std::move(change));
    if (!written) co_return Error(written.error());
    log::info("the ring of epoch {} has {} members", *written, next->members.size());
    co_return Result<>();
  }

  Registry& registry_;
  Election& election_;
  ClusterMap& map_;
  const RingKeeperOptions options_;
  RingPlan plan_;  // used by the task only
  std::stop_source stopping_;
  const std::shared_ptr<SharedResult<bool>> ended_ = SharedResult<bool>::make();
};

}  // namespace

std::unique_ptr<RingKeeper> RingKeeper::start(Registry& registry, Election& election,
                                              ClusterMap& map, RingKeeperOptions options,
                                              Executor& executor) {
  auto keeper = std::make_unique<RingKeeperImpl>(registry, election, map, options);
  executor.spawn(keeper->keep());
  return keeper;
}

}  // namespace leat
