// SPDX-License-Identifier: Apache-2.0
#include "source/retry/circuit_breaker.h"

#include <algorithm>

namespace leat {

std::optional<CircuitBreaker::OpenState> CircuitBreaker::open_state_locked(
    Clock::time_point now) const {
  if (!open_ || now >= probe_at_) return std::nullopt;
  return OpenState{.failing_for = now - failing_since_,
                   .next_probe_in = probe_at_ - now,
                   .last = last_,
                   .changed = changed_};
}

std::optional<CircuitBreaker::OpenState> CircuitBreaker::open_state(Clock::time_point now) const {
  std::lock_guard lock(mutex_);
  return open_state_locked(now);
}

std::expected<CircuitBreaker::Permit, CircuitBreaker::OpenState> CircuitBreaker::admit(
    Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (auto open = open_state_locked(now)) return std::unexpected(*std::move(open));
  if (!open_) return Permit(this, 0);
  probe_at_ = now + options_.open_max;
  return Permit(this, ++probes_);
}

bool CircuitBreaker::responded() {
  Event closed;
  {
    std::lock_guard lock(mutex_);
    failures_ = 0;
    if (!std::exchange(open_, false)) return false;
    closed = std::exchange(changed_, SharedPromise<bool>::make());
  }
  closed->set(true);
  return true;
}

bool CircuitBreaker::failed(Clock::time_point now, uint64_t probe, const Status& why) {
  std::lock_guard lock(mutex_);
  last_ = why;
  if (open_) {
    // Other requests were sent before it opened, or before the newest probe; they add no
    // information.
    if (probe == 0 || probe != probes_) return false;
    open_for_ = std::min(2 * open_for_, options_.open_max);
    probe_at_ = now + open_for_;
    return false;
  }
  if (failures_++ == 0) failing_since_ = now;
  if (failures_ < options_.failures || now - failing_since_ < options_.failing_min) return false;
  open_ = true;
  open_for_ = options_.open_min;
  probe_at_ = now + open_for_;
  return true;
}

void CircuitBreaker::end_probe(uint64_t probe) {
  if (probe == 0) return;
  Event next;
  {
    std::lock_guard lock(mutex_);
    if (!open_ || probe != probes_) return;
    probe_at_ = Clock::time_point::min();
    next = std::exchange(changed_, SharedPromise<bool>::make());
  }
  next->set(true);
}

}  // namespace leat
