// SPDX-License-Identifier: Apache-2.0
// Invariant: a waiter either does not fit into what is free, or waits behind one that does not. So
// each release of a permit looks for all waiters that can proceed now.
#include "fetch/fair_gate.h"

#include <algorithm>

#include "base/check.h"

namespace leat {

void FairGate::Permit::shrink_to(uint64_t count) {
  if (gate_ == nullptr || count >= count_) return;
  gate_->give_back(count_ - count, group_);
  count_ = count;
}

Task<Result<FairGate::Permit>> FairGate::acquire(Context context, Ask ask, const char* what) {
  ask.count = std::min(ask.count, limits_.all);
  std::shared_ptr<SharedResult<bool>> granted;
  FairOrder::Place place;
  Granted now;
  {
    std::lock_guard lock(mutex_);
    if (waiters_.empty() && fits_locked(ask)) {
      take_locked(ask);
      co_return Permit(this, ask.count, ask.group);
    }
    granted = SharedResult<bool>::make();
    place = order_.enter(ask.flow, ask.cost, ask.yields);
    waiters_.emplace(place, Waiter{ask, granted});
    ++groups_[ask.group].waiting;
    // It may be the first of a group that no waiter before it belongs to.
    now = next_locked();
  }
  for (auto& waiter : now) waiter->set(true);
  Result<bool> outcome = co_await granted->wait(context, what);
  if (outcome) co_return Permit(this, ask.count, ask.group);
  {
    // The grant may have arrived at the same moment as the end of the context.
    std::lock_guard lock(mutex_);
    auto mine = waiters_.find(place);
    if (mine != waiters_.end()) {
      waiters_.erase(mine);
      order_.left(place, ask.flow);
      end_wait_locked(ask);
    } else {
      drop_locked(ask.count, ask.group);
    }
    now = next_locked();
  }
  for (auto& waiter : now) waiter->set(true);
  co_return Error(outcome.error());
}

std::optional<FairGate::Permit> FairGate::try_acquire(Ask ask) {
  ask.count = std::min(ask.count, limits_.all);
  std::lock_guard lock(mutex_);
  if (!waiters_.empty() && !waiters_.begin()->first.yields) return std::nullopt;
  if (!fits_locked(ask)) return std::nullopt;
  take_locked(ask);
  return Permit(this, ask.count, ask.group);
}

uint64_t FairGate::in_use() const {
  std::lock_guard lock(mutex_);
  return used_;
}

uint64_t FairGate::waiting() const {
  std::lock_guard lock(mutex_);
  return waiters_.size();
}

size_t FairGate::groups() const {
  std::lock_guard lock(mutex_);
  return groups_.size();
}

bool FairGate::group_full_locked(const Ask& ask) const {
  auto group = groups_.find(ask.group);
  const uint64_t used = group == groups_.end() ? 0 : group->second.used;
  return used > 0 && used + ask.count > limits_.group;
}

bool FairGate::fits_locked(const Ask& ask) const {
  auto group = groups_.find(ask.group);
  if (!ask.yields && (group == groups_.end() || group->second.used == 0)) return true;
  const uint64_t limit = ask.yields ? limits_.yielding : limits_.all;
  return (used_ == 0 || used_ + ask.count <= limit) && !group_full_locked(ask);
}

void FairGate::take_locked(const Ask& ask) {
  used_ += ask.count;
  groups_[ask.group].used += ask.count;
}

void FairGate::end_wait_locked(const Ask& ask) {
  auto group = groups_.find(ask.group);
  LEAT_CHECK(group != groups_.end() && group->second.waiting > 0);
  --group->second.waiting;
  if (group->second.waiting == 0 && group->second.used == 0) groups_.erase(group);
}

void FairGate::drop_locked(uint64_t count, uint64_t group) {
  auto of = groups_.find(group);
  LEAT_CHECK(of != groups_.end() && of->second.used >= count && used_ >= count);
  used_ -= count;
  of->second.used -= count;
  if (of->second.waiting == 0 && of->second.used == 0) groups_.erase(of);
}

bool FairGate::somebody_has_none_locked() const {
  return std::ranges::any_of(groups_, [](const auto& group) {
    return group.second.used == 0 && group.second.waiting > 0;
  });
}

// Grants in order: a waiter that does not fit blocks those behind it. It blocks only its own group
// if that group has too much, and never the first permit of another group.
FairGate::Granted FairGate::next_locked() {
  Granted granted;
  bool held_up = false;
  std::vector<uint64_t> full;  // stores; few
  for (auto at = waiters_.begin(); at != waiters_.end();) {
    const Ask& ask = at->second.ask;
    if (held_up && !somebody_has_none_locked()) break;
    const bool first = groups_[ask.group].used == 0;
    const bool behind = (held_up && !first) || std::ranges::find(full, ask.group) != full.end();
    if (behind || !fits_locked(ask)) {
      if (!behind) {
        if (group_full_locked(ask)) {
          full.push_back(ask.group);
        } else {
          held_up = true;
        }
      }
      ++at;
      continue;
    }
    take_locked(ask);
    order_.served(at->first, ask.flow, ask.cost);
    granted.push_back(std::move(at->second.granted));
    end_wait_locked(ask);
    at = waiters_.erase(at);
  }
  return granted;
}

void FairGate::give_back(uint64_t count, uint64_t group) {
  Granted granted;
  {
    std::lock_guard lock(mutex_);
    drop_locked(count, group);
    granted = next_locked();
  }
  for (auto& waiter : granted) waiter->set(true);
}

}  // namespace leat
