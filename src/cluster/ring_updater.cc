// SPDX-License-Identifier: Apache-2.0
// Each write is conditional on our leadership and on the ring that was read, so a leader that lost
// its leadership meanwhile writes nothing. The ring is read from the registry before each write:
// the view has its weights, the record its capacities.
#include "cluster/ring_updater.h"

#include <algorithm>

#include "cluster/cluster_records.h"
#include "cluster/ring_plan.h"
#include "runtime/shared_promise.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Poll interval without events: this process may have become leader.
constexpr Clock::duration kPollInterval = std::chrono::seconds(1);

class RingUpdaterImpl : public RingUpdater {
 public:
  RingUpdaterImpl(Registry& registry, Election& election, ClusterViewSource& views,
                  RingUpdaterOptions options)
      : registry_(registry),
        election_(election),
        views_(views),
        options_(options),
        plan_(options.absence_timeout, options.interval_per_member) {}

  Task<> stop() override {
    stopping_.request_stop();
    Result<bool> ended = co_await ended_->wait(Context::background(), "the end of a ring updater");
    static_cast<void>(ended);
  }

  // Runs until stop().
  Task<> run() {
    const Context context = Context::background().with_cancel(stopping_.get_token());
    while (!context.cancelled()) {
      const RegistryRevision seen = views_.view()->revision;
      Result<> updated = co_await update(context);
      if (!updated && !context.cancelled()) {
        log::info("the ring was not written: {}", updated.error().to_string());
      }
      Result<ClusterViewPtr> news =
          co_await views_.newer(context.with_timeout(kPollInterval), seen);
      if (!news) continue;
      Result<> debounced = co_await sleep_for(context, options_.debounce);
      static_cast<void>(debounced);
    }
    ended_->set(true);
  }

 private:
  Task<Result<>> update(Context context) {
    const auto lead = election_.condition();
    if (!lead) {
      plan_ = RingPlan(options_.absence_timeout,
                       options_.interval_per_member);  // the next leader starts to count again
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
    const ClusterViewPtr view = views_.view();
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
  ClusterViewSource& views_;
  const RingUpdaterOptions options_;
  RingPlan plan_;  // used by the task only
  std::stop_source stopping_;
  const std::shared_ptr<SharedPromise<bool>> ended_ = SharedPromise<bool>::make();
};

}  // namespace

std::unique_ptr<RingUpdater> RingUpdater::start(Registry& registry, Election& election,
                                                ClusterViewSource& views,
                                                RingUpdaterOptions options, Executor& executor) {
  auto updater = std::make_unique<RingUpdaterImpl>(registry, election, views, options);
  executor.spawn(updater->run());
  return updater;
}

}  // namespace leat
