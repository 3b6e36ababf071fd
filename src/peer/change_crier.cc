// SPDX-License-Identifier: Apache-2.0
#include "peer/change_crier.h"

#include <algorithm>
#include <utility>

#include "telemetry/log.h"

namespace leat {

void ChangeCrier::cry(PeerChange change) {
  bool begin = false;
  {
    std::lock_guard lock(mutex_);
    waiting_.add(std::move(change));
    begin = !std::exchange(gathering_, true);
  }
  if (!begin) return;
  if (auto token = activity_.enter()) executor_.spawn(tell_all(std::move(*token)));
}

Task<> ChangeCrier::tell_all(Activity::Token token) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  Result<> gathered = co_await sleep_for(context, options_.gather);
  static_cast<void>(gathered);
  std::vector<PeerChange> changes;
  {
    std::lock_guard lock(mutex_);
    changes = waiting_.take();
    gathering_ = false;
  }
  static_cast<void>(log_.append(changes));
  std::vector<WorkerId> begun;
  const std::vector<WorkerId> others = options_.others();
  {
    std::lock_guard lock(mutex_);
    for (const WorkerId& other : others) {
      Letter& letter = letters_[other];
      for (const PeerChange& change : changes) letter.changes.add(change);
      if (!std::exchange(letter.telling, true)) begun.push_back(other);
    }
  }
  for (const WorkerId& other : begun) executor_.spawn(tell_one(token.another(), other));
}

// Returns nothing if all changes were sent; the worker's entry is removed then.
std::vector<PeerChange> ChangeCrier::take(const WorkerId& other) {
  std::lock_guard lock(mutex_);
  const auto letter = letters_.find(other);
  std::vector<PeerChange> changes = letter->second.changes.take();
  if (changes.empty()) letters_.erase(letter);
  return changes;
}

bool ChangeCrier::put_back(const WorkerId& other, std::vector<PeerChange> changes) {
  const std::vector<WorkerId> others = options_.others();
  std::lock_guard lock(mutex_);
  const auto letter = letters_.find(other);
  GatheredChanges& waiting = letter->second.changes;
  if (std::ranges::find(others, other) != others.end()) {
    for (PeerChange& change : changes) waiting.add(std::move(change));
    return true;
  }
  // The worker may have returned meanwhile; then the pending changes are newer.
  if (!waiting.empty()) return true;
  letters_.erase(letter);
  return false;
}

Task<> ChangeCrier::tell_one(Activity::Token, WorkerId other) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  Clock::duration pause = options_.pause_min;
  bool missed = false;
  while (true) {
    PeerChanges news{.number = 0, .changes = take(other)};
    if (news.changes.empty()) co_return;
    Result<> told = co_await options_.tell(context.with_timeout(options_.patience), other, news);
    if (context.cancelled()) co_return;
    if (told) {
      pause = options_.pause_min;
      if (std::exchange(missed, false)) {
        log::info("worker {} was told what it had missed of changes", other.to_hex());
      }
      continue;
    }
    if (!std::exchange(missed, true)) {
      log::info("worker {} is not told yet what has changed: {}", other.to_hex(),
                told.error().to_string());
    }
    if (!put_back(other, std::move(news.changes))) co_return;
    Result<> slept = co_await sleep_for(context, pause);
    if (!slept) co_return;
    pause = std::min(pause * 2, options_.pause_max);
  }
}

Task<> ChangeCrier::stop() {
  stopping_.request_stop();
  activity_.close();
  co_await activity_.wait_idle();
}

}  // namespace leat
