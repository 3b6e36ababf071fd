// SPDX-License-Identifier: Apache-2.0
#include "source/steady/circuit.h"

#include <algorithm>

namespace leat {

std::optional<Circuit::Refusal> Circuit::refusal_locked(Clock::time_point now) const {
  if (!open_ || (now >= probe_at_ && probe_ == 0)) return std::nullopt;
  return Refusal{.failing_for = now - failing_since_,
                 .asked_again_in = std::max(probe_at_ - now, Clock::duration::zero()),
                 .last = last_};
}

std::optional<Circuit::Refusal> Circuit::refusal(Clock::time_point now) const {
  std::lock_guard lock(mutex_);
  return refusal_locked(now);
}

std::expected<Circuit::Pass, Circuit::Refusal> Circuit::admit(Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (auto refused = refusal_locked(now)) return std::unexpected(*std::move(refused));
  if (open_) probe_ = ++probes_;
  return Pass(this, probe_);
}

void Circuit::answered() {
  std::lock_guard lock(mutex_);
  open_ = false;
  probe_ = 0;
  failures_ = 0;
}

bool Circuit::failed(Clock::time_point now, uint64_t probe, const Status& why) {
  std::lock_guard lock(mutex_);
  last_ = why;
  if (open_) {
    // Others were sent before it opened and tell nothing new.
    if (probe == 0 || probe != probe_) return false;
    probe_ = 0;
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

void Circuit::leave(uint64_t probe) {
  if (probe == 0) return;
  std::lock_guard lock(mutex_);
  if (probe == probe_) probe_ = 0;
}

}  // namespace leat
