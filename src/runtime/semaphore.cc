// SPDX-License-Identifier: Apache-2.0
#include "runtime/semaphore.h"

#include <algorithm>
#include <vector>

namespace leat {

Task<Result<Semaphore::Permit>> Semaphore::acquire(Context context, uint64_t count,
                                                   const char* what) {
  count = std::min(count, limit_);
  std::shared_ptr<SharedPromise<bool>> granted;
  {
    std::lock_guard lock(mutex_);
    if (waiters_.empty() && free_ >= count) {
      free_ -= count;
      co_return Permit(this, count);
    }
    granted = SharedPromise<bool>::make();
    waiters_.push_back({count, granted});
  }
  Result<bool> outcome = co_await granted->wait(context, what);
  if (outcome) co_return Permit(this, count);
  {
    // The grant may arrive at the moment when the context ends.
    std::lock_guard lock(mutex_);
    auto mine = std::ranges::find(waiters_, granted, &Waiter::granted);
    if (mine != waiters_.end()) {
      waiters_.erase(mine);
      co_return Error(outcome.error());
    }
  }
  release(count);
  co_return Error(outcome.error());
}

std::optional<Semaphore::Permit> Semaphore::try_acquire(uint64_t count) {
  count = std::min(count, limit_);
  std::lock_guard lock(mutex_);
  if (!waiters_.empty() || free_ < count) return std::nullopt;
  free_ -= count;
  return Permit(this, count);
}

uint64_t Semaphore::in_use() const {
  std::lock_guard lock(mutex_);
  return limit_ - free_;
}

void Semaphore::release(uint64_t count) {
  std::vector<std::shared_ptr<SharedPromise<bool>>> granted;
  {
    std::lock_guard lock(mutex_);
    free_ += count;
    while (!waiters_.empty() && waiters_.front().count <= free_) {
      free_ -= waiters_.front().count;
      granted.push_back(std::move(waiters_.front().granted));
      waiters_.pop_front();
    }
  }
  for (auto& waiter : granted) waiter->set(true);
}

}  // namespace leat
