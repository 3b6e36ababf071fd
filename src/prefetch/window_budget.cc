// SPDX-License-Identifier: Apache-2.0
// Invariant: the sum over all streams of min(wanted, level) is at most `bytes_max_`.
#include "prefetch/window_budget.h"

#include <algorithm>

#include "base/check.h"

namespace leat {
namespace {

const MetricFamily kStreams(MetricType::kGauge, "leat_prefetch_streams",
                            "Sequential streams with a read in the last 5 s");
const MetricFamily kWindowBytes(MetricType::kGauge, "leat_prefetch_window_bytes",
                                "Sum of the prefetch windows of these streams");

}  // namespace

WindowBudget::WindowBudget(uint64_t bytes_max, std::function<Time()> now)
    : bytes_max_(bytes_max),
      now_(std::move(now)),
      swept_at_(now_()),
      streams_gauge_(kStreams, [this] { return static_cast<double>(use().streams); }),
      window_bytes_gauge_(kWindowBytes,
                          [this] { return static_cast<double>(use().window_bytes); }) {}

WindowBudget::~WindowBudget() {
  LEAT_CHECK(entries_.empty());
}

uint64_t WindowBudget::request(Share& share, uint64_t bytes) {
  const Time now = now_();
  std::lock_guard lock(mutex_);
  if (share.budget_ == nullptr) {
    share.position_ = entries_.emplace(entries_.end());
    share.budget_ = this;
  }
  Entry& entry = *share.position_;
  entry.used_at = now;
  if (entry.wanted != bytes) change_locked(entry, bytes);
  if (tight() && now - swept_at_ >= std::chrono::seconds(1)) sweep_locked(now);
  return granted_locked(bytes);
}

uint64_t WindowBudget::granted_locked(uint64_t wanted) const {
  const uint64_t most = std::min(wanted, level_.load(std::memory_order_relaxed));
  // A grant below the minimum counts as none.
  return most < std::min(wanted, kShareMin) ? 0 : most;
}

uint64_t WindowBudget::granted_bytes() const {
  std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const auto& [wanted, streams] : demands_) sum += granted_locked(wanted) * streams;
  return sum;
}

WindowBudget::Use WindowBudget::use() const {
  const Time now = now_();
  std::lock_guard lock(mutex_);
  Use use;
  for (const Entry& entry : entries_) {
    if (entry.wanted == 0 || now - entry.used_at >= kIdle) continue;
    ++use.streams;
    use.window_bytes += granted_locked(entry.wanted);
  }
  return use;
}

size_t WindowBudget::streams() const {
  std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& [wanted, streams] : demands_) count += streams;
  return count;
}

void WindowBudget::release(Position position) {
  std::lock_guard lock(mutex_);
  change_locked(*position, 0);
  entries_.erase(position);
}

void WindowBudget::change_locked(Entry& entry, uint64_t wanted) {
  if (entry.wanted > 0) {
    auto of = demands_.find(entry.wanted);
    LEAT_CHECK(of != demands_.end());
    if (--of->second == 0) demands_.erase(of);
  }
  if (wanted > 0) ++demands_[wanted];
  wanted_ = wanted_ - entry.wanted + wanted;
  entry.wanted = wanted;
  level_locked();
}

void WindowBudget::sweep_locked(Time now) {
  swept_at_ = now;
  for (Entry& entry : entries_) {
    if (entry.wanted > 0 && now - entry.used_at >= kIdle) change_locked(entry, 0);
  }
}

// From the smallest want on, each gets its want as long as that much is left for every stream.
void WindowBudget::level_locked() {
  uint64_t left = bytes_max_, streams = 0;
  for (const auto& [wanted, count] : demands_) streams += count;
  for (const auto& [wanted, count] : demands_) {
    if (wanted > left / streams) {
      level_ = left / streams;
      return;
    }
    left -= wanted * count;
    streams -= count;
  }
  level_ = UINT64_MAX;
}

}  // namespace leat
