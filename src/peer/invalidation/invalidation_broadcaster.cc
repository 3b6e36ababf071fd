// SPDX-License-Identifier: Apache-2.0
#include "peer/invalidation/invalidation_broadcaster.h"

#include <algorithm>
#include <utility>

#include "telemetry/log.h"

namespace leat {

void InvalidationBroadcaster::publish(Invalidation invalidation) {
  bool start = false;
  {
    std::lock_guard lock(mutex_);
    gathered_.add(std::move(invalidation));
    start = !std::exchange(gathering_, true);
  }
  if (!start) return;
  if (auto token = gate_.enter()) executor_.spawn(send_to_all(std::move(*token)));
}

Task<> InvalidationBroadcaster::send_to_all(Gate::Holder token) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  Result<> slept = co_await sleep_for(context, options_.gather_time);
  static_cast<void>(slept);
  std::vector<Invalidation> invalidations;
  {
    std::lock_guard lock(mutex_);
    invalidations = gathered_.take();
    gathering_ = false;
  }
  static_cast<void>(log_.append(invalidations));
  std::vector<WorkerId> idle;
  const std::vector<WorkerId> others = options_.others();
  {
    std::lock_guard lock(mutex_);
    for (const WorkerId& other : others) {
      PendingBatch& pending = pending_[other];
      for (const Invalidation& invalidation : invalidations) pending.batch.add(invalidation);
      if (!std::exchange(pending.sending, true)) idle.push_back(other);
    }
  }
  for (const WorkerId& other : idle) executor_.spawn(send_loop(token.another(), other));
}

// Returns nothing if all changes were sent; the worker's entry is removed then.
std::vector<Invalidation> InvalidationBroadcaster::take(const WorkerId& other) {
  std::lock_guard lock(mutex_);
  const auto pending = pending_.find(other);
  std::vector<Invalidation> unsent = pending->second.batch.take();
  if (unsent.empty()) pending_.erase(pending);
  return unsent;
}

bool InvalidationBroadcaster::put_back(const WorkerId& other, std::vector<Invalidation> unsent) {
  const std::vector<WorkerId> others = options_.others();
  std::lock_guard lock(mutex_);
  const auto pending = pending_.find(other);
  InvalidationBatch& batch = pending->second.batch;
  if (std::ranges::find(others, other) != others.end()) {
    for (Invalidation& invalidation : unsent) batch.add(std::move(invalidation));
    return true;
  }
  // The worker may have returned meanwhile; then the pending changes are newer.
  if (!batch.empty()) return true;
  pending_.erase(pending);
  return false;
}

Task<> InvalidationBroadcaster::send_loop(Gate::Holder, WorkerId other) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  Clock::duration backoff = options_.backoff_min;
  bool behind = false;
  while (true) {
    Invalidations message{.number = 0, .items = take(other)};
    if (message.items.empty()) co_return;
    Result<> sent = co_await options_.send(context.with_timeout(options_.timeout), other, message);
    if (context.cancelled()) co_return;
    if (sent) {
      backoff = options_.backoff_min;
      if (std::exchange(behind, false)) {
        log::info("worker {} has received its pending invalidations", other.to_hex());
      }
      continue;
    }
    if (!std::exchange(behind, true)) {
      log::info("invalidation to worker {} failed, will retry: {}", other.to_hex(),
                sent.error().to_string());
    }
    if (!put_back(other, std::move(message.items))) co_return;
    Result<> slept = co_await sleep_for(context, backoff);
    if (!slept) co_return;
    backoff = std::min(backoff * 2, options_.backoff_max);
  }
}

Task<> InvalidationBroadcaster::stop() {
  stopping_.request_stop();
  gate_.close();
  co_await gate_.wait_idle();
}

}  // namespace leat
