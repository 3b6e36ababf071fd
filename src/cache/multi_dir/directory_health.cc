// SPDX-License-Identifier: Apache-2.0
#include "cache/multi_dir/directory_health.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace leat {
namespace {

constexpr uint64_t kFailuresUnstable = 3, kFailuresDown = 100;
constexpr unsigned kGoodProbes = 3;
// A disk that went down and recovered this often stays down until the next start.
constexpr unsigned kRecoveriesMax = 8;

HealthTimes sane(HealthTimes times) {
  constexpr Clock::duration kHangTimeoutMin = std::chrono::seconds(1);
  constexpr Clock::duration kProbeIntervalMin = std::chrono::milliseconds(1);
  times.hang_timeout = std::max(times.hang_timeout, kHangTimeoutMin);
  times.call_hang_timeout = std::max(times.call_hang_timeout, times.hang_timeout);
  times.probe_interval = std::max(times.probe_interval, kProbeIntervalMin);
  times.probe_backoff_min = std::max(times.probe_backoff_min, kProbeIntervalMin);
  times.probe_backoff_max = std::max(times.probe_backoff_max, times.probe_backoff_min);
  return times;
}

}  // namespace

bool blames_disk(const Status& failure) {
  // EIO and similar errors have no code of their own.
  return failure.code() == StatusCode::kInternal || failure.code() == StatusCode::kReadOnly;
}

std::string DirectoryHealth::why() const {
  std::lock_guard lock(mutex_);
  return why_;
}

DirectoryHealth::DirectoryHealth(HealthTimes times) : times_(sane(times)) {}

void DirectoryHealth::call_failed(Clock::time_point now, const Status& failure) {
  if (!blames_disk(failure)) return;
  std::lock_guard lock(mutex_);
  if (now - window_began_ > times_.window) {
    window_began_ = now;
    failures_ = 0;
  }
  ++failures_;
  good_probes_ = 0;
  const DirectoryState is = state();
  if (is == DirectoryState::kNormal && failures_ >= kFailuresUnstable) {
    change(DirectoryState::kUnstable,
           fmt::format("{} calls failed within a minute, the last one: {}", failures_,
                       failure.to_string()),
           now);
  } else if (is == DirectoryState::kUnstable && failures_ >= kFailuresDown) {
    change(DirectoryState::kDown,
           fmt::format("{} calls failed within a minute, the last one: {}", failures_,
                       failure.to_string()),
           now);
  }
}

bool DirectoryHealth::hangs(const InflightCalls& calls, Clock::time_point now) const {
  return calls.stalled_for(now) > times_.hang_timeout ||
         calls.oldest(now) > times_.call_hang_timeout;
}

void DirectoryHealth::note_given_up(Clock::time_point now) {
  std::lock_guard lock(mutex_);
  change(DirectoryState::kDown,
         fmt::format("its disk has not responded for {}", format_duration(times_.hang_timeout)),
         now);
  if (opening_) return;
  ++probe_number_;
  probing_ = opening_due_ = false;
}

void DirectoryHealth::change(DirectoryState to, std::string why, Clock::time_point now) {
  state_ = to;
  was_degraded_ = was_degraded_ || to != DirectoryState::kNormal;
  why_ = std::move(why);
  good_probes_ = 0;
  probe_every_ = to == DirectoryState::kDown ? times_.probe_backoff_min : times_.probe_interval;
  next_probe_ = now + probe_every_;
}

bool DirectoryHealth::probe_is_due(Clock::time_point now) {
  std::lock_guard lock(mutex_);
  const bool wanted = state() != DirectoryState::kNormal && recoveries_ < kRecoveriesMax;
  if (!wanted || probing_ || now < next_probe_) return false;
  probing_ = true;
  ++probe_number_;
  return true;
}

void DirectoryHealth::note_probe(Clock::time_point now, const Result<>& outcome) {
  std::lock_guard lock(mutex_);
  probing_ = false;
  next_probe_ = now + probe_every_;
  if (state() == DirectoryState::kDown && outcome) {
    probing_ = opening_due_ = true;
    return;
  }
  if (state() == DirectoryState::kDown) {
    why_ = outcome.error().to_string();
    probe_every_ = std::min(2 * probe_every_, times_.probe_backoff_max);
    next_probe_ = now + probe_every_;
    return;
  }
  if (!outcome) {
    change(DirectoryState::kDown, outcome.error().to_string(), now);
  } else if (++good_probes_ >= kGoodProbes) {
    change(DirectoryState::kNormal, "", now);
    failures_ = 0;
  }
}

bool DirectoryHealth::opening_is_due() {
  std::lock_guard lock(mutex_);
  opening_ = opening_ || opening_due_;
  return std::exchange(opening_due_, false);
}

void DirectoryHealth::note_opened() {
  std::lock_guard lock(mutex_);
  probing_ = opening_ = false;
  failures_ = 0;
  if (++recoveries_ == kRecoveriesMax) {
    why_ = "it failed and recovered too often; restart the daemon to use it again";
    return;
  }
  state_ = DirectoryState::kNormal;
  was_degraded_ = false;
  why_.clear();
}

void DirectoryHealth::note_open_failed(Clock::time_point now, const Status& why) {
  std::lock_guard lock(mutex_);
  probing_ = opening_ = false;
  const Clock::duration waited = probe_every_;
  const bool was_down = state() == DirectoryState::kDown;
  change(DirectoryState::kDown, why.to_string(), now);
  if (!was_down) return;
  probe_every_ = std::min(2 * std::max(waited, times_.probe_backoff_min), times_.probe_backoff_max);
  next_probe_ = now + probe_every_;
}

}  // namespace leat
