// SPDX-License-Identifier: Apache-2.0
#include "apps/cluster/change_crier.h"

#include <algorithm>

#include "telemetry/log.h"

namespace leat {
namespace {

constexpr Clock::duration kGatherTime = std::chrono::milliseconds(50);
constexpr Clock::duration kTellTime = std::chrono::seconds(2);

}  // namespace

void ChangeCrier::cry(PeerChange change) {
  bool begin = false;
  {
    std::lock_guard lock(mutex_);
    waiting_.add(std::move(change));
    begin = !std::exchange(telling_, true);
  }
  if (!begin) return;
  if (auto token = activity_.enter()) executor_.spawn(tell_all(std::move(*token)));
}

Task<> ChangeCrier::tell_all(Activity::Token token) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  Result<> gathered = co_await sleep_for(context, kGatherTime);
  static_cast<void>(gathered);
  PeerChanges changes;
  {
    std::lock_guard lock(mutex_);
    changes.changes = waiting_.take();
    telling_ = false;
  }
  static_cast<void>(log_.append(changes.changes));
  for (const auto& other : others_()) {
    executor_.spawn(tell_one(token.another(), other, changes, context));
  }
}

Task<> ChangeCrier::tell_one(Activity::Token, std::shared_ptr<PeerClient> other,
                             PeerChanges changes, Context context) {
  constexpr int kAttempts = 2;
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    Result<> told = co_await other->tell(context.with_timeout(kTellTime), changes);
    if (told || context.cancelled()) co_return;
    if (attempt == kAttempts) {
      log::info("another worker was not told what has changed: {}", told.error().to_string());
    }
  }
}

Task<> ChangeCrier::stop() {
  stopping_.request_stop();
  activity_.close();
  co_await activity_.wait_idle();
}

}  // namespace leat
