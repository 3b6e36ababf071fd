// SPDX-License-Identifier: Apache-2.0
// Invariant: a waiter either does not fit into what is free, or waits behind one that does not. So
// each release of a permit grants all waiters that can proceed now.
#include "fetch/fair_semaphore.h"

#include <algorithm>

#include "base/check.h"

namespace leat {

void FairSemaphore::Permit::shrink_to(uint64_t count) {
  if (semaphore_ == nullptr || count >= count_) return;
  semaphore_->release(count_ - count, tenant_);
  count_ = count;
}

Task<Result<FairSemaphore::Permit>> FairSemaphore::acquire(Context context, Request request,
                                                           const char* what) {
  std::shared_ptr<SharedPromise<bool>> granted;
  FairQueue::Position position;
  Granted now;
  {
    std::lock_guard lock(mutex_);
    request.count = std::min(request.count, limits_.all);
    if (waiters_.empty() && fits_locked(request)) {
      take_locked(request);
      co_return Permit(this, request.count, request.tenant);
    }
    granted = SharedPromise<bool>::make();
    position = queue_.enqueue(request.flow, request.cost, request.low_priority);
    waiters_.emplace(position, Waiter{request, granted});
    ++tenants_[request.tenant].waiting;
    // It may be the first of a tenant that no waiter before it belongs to.
    now = grant_locked();
  }
  for (auto& waiter : now) waiter->set(true);
  Result<bool> outcome = co_await granted->wait(context, what);
  if (outcome) co_return Permit(this, request.count, request.tenant);
  {
    // The grant may have arrived at the same moment as the end of the context.
    std::lock_guard lock(mutex_);
    auto mine = waiters_.find(position);
    if (mine != waiters_.end()) {
      waiters_.erase(mine);
      queue_.cancel(position, request.flow);
      end_wait_locked(request);
    } else {
      release_locked(request.count, request.tenant);
    }
    now = grant_locked();
  }
  for (auto& waiter : now) waiter->set(true);
  co_return Error(outcome.error());
}

std::optional<FairSemaphore::Permit> FairSemaphore::try_acquire(Request request) {
  std::lock_guard lock(mutex_);
  request.count = std::min(request.count, limits_.all);
  if (!waiters_.empty() && !waiters_.begin()->first.low_priority) return std::nullopt;
  if (!fits_locked(request)) return std::nullopt;
  take_locked(request);
  return Permit(this, request.count, request.tenant);
}

void FairSemaphore::set_limits(Limits limits) {
  Granted granted;
  {
    std::lock_guard lock(mutex_);
    if (limits == limits_) return;
    limits_ = limits;
    granted = grant_locked();
  }
  for (auto& waiter : granted) waiter->set(true);
}

uint64_t FairSemaphore::in_use() const {
  std::lock_guard lock(mutex_);
  return used_;
}

uint64_t FairSemaphore::waiting() const {
  std::lock_guard lock(mutex_);
  return waiters_.size();
}

size_t FairSemaphore::tenants() const {
  std::lock_guard lock(mutex_);
  return tenants_.size();
}

bool FairSemaphore::tenant_full_locked(const Request& request) const {
  auto tenant = tenants_.find(request.tenant);
  const uint64_t used = tenant == tenants_.end() ? 0 : tenant->second.used;
  return used > 0 && used + request.count > limits_.tenant;
}

bool FairSemaphore::fits_locked(const Request& request) const {
  auto tenant = tenants_.find(request.tenant);
  if (!request.low_priority && (tenant == tenants_.end() || tenant->second.used == 0)) return true;
  const uint64_t limit = request.low_priority ? limits_.low_priority : limits_.all;
  return (used_ == 0 || used_ + request.count <= limit) && !tenant_full_locked(request);
}

void FairSemaphore::take_locked(const Request& request) {
  used_ += request.count;
  tenants_[request.tenant].used += request.count;
}

void FairSemaphore::end_wait_locked(const Request& request) {
  auto tenant = tenants_.find(request.tenant);
  LEAT_CHECK(tenant != tenants_.end() && tenant->second.waiting > 0);
  --tenant->second.waiting;
  if (tenant->second.waiting == 0 && tenant->second.used == 0) tenants_.erase(tenant);
}

void FairSemaphore::release_locked(uint64_t count, uint64_t tenant) {
  auto of = tenants_.find(tenant);
  LEAT_CHECK(of != tenants_.end() && of->second.used >= count && used_ >= count);
  used_ -= count;
  of->second.used -= count;
  if (of->second.waiting == 0 && of->second.used == 0) tenants_.erase(of);
}

bool FairSemaphore::any_tenant_without_permit_locked() const {
  return std::ranges::any_of(tenants_, [](const auto& tenant) {
    return tenant.second.used == 0 && tenant.second.waiting > 0;
  });
}

// Grants in order: a waiter that does not fit blocks those behind it. It blocks only its own
// tenant if that tenant has too much, and never the first permit of another tenant.
FairSemaphore::Granted FairSemaphore::grant_locked() {
  Granted granted;
  bool blocked = false;
  std::vector<uint64_t> full;  // stores; few
  for (auto at = waiters_.begin(); at != waiters_.end();) {
    const Request& request = at->second.request;
    if (blocked && !any_tenant_without_permit_locked()) break;
    const bool first = tenants_[request.tenant].used == 0;
    const bool behind =
        (blocked && !first) || std::ranges::find(full, request.tenant) != full.end();
    if (behind || !fits_locked(request)) {
      if (!behind) {
        if (tenant_full_locked(request)) {
          full.push_back(request.tenant);
        } else {
          blocked = true;
        }
      }
      ++at;
      continue;
    }
    take_locked(request);
    queue_.dequeue(at->first, request.flow, request.cost);
    granted.push_back(std::move(at->second.granted));
    end_wait_locked(request);
    at = waiters_.erase(at);
  }
  return granted;
}

void FairSemaphore::release(uint64_t count, uint64_t tenant) {
  Granted granted;
  {
    std::lock_guard lock(mutex_);
    release_locked(count, tenant);
    granted = grant_locked();
  }
  for (auto& waiter : granted) waiter->set(true);
}

}  // namespace leat
