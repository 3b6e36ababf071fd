// SPDX-License-Identifier: Apache-2.0
// Invariant: each accepted request is in its session's window, or that window answers kOld to it.
// Else the session was evicted; its date is then at most the latest date evicted before the session
// began (again).
#include "auth/replay_guard.h"

#include <algorithm>
#include <mutex>

#include "base/check.h"
#include "base/id128.h"

namespace leat {

ReplayWindow::Verdict ReplayWindow::take(uint64_t counter) {
  const uint64_t bit = uint64_t{1} << counter % 64;
  if (any_ && counter <= greatest_) {
    if (greatest_ - counter >= kCounters) return Verdict::kOld;
    if ((word(counter) & bit) != 0) return Verdict::kSeen;
    word(counter) |= bit;
    return Verdict::kNew;
  }
  // Clears the counters that enter the window.
  if (!any_ || counter - greatest_ >= kCounters) {
    seen_.fill(0);
  } else {
    for (uint64_t next = greatest_ + 1; next < counter;) {
      if (next % 64 == 0 && counter - next >= 64) {
        word(next) = 0;
        next += 64;
      } else {
        word(next) &= ~(uint64_t{1} << next % 64);
        ++next;
      }
    }
  }
  any_ = true;
  greatest_ = counter;
  word(counter) |= bit;
  return Verdict::kNew;
}

ReplayGuard::ReplayGuard(Options options)
    : options_(options), by_session_(0, Hash{Id128::random().hash64()}) {
  LEAT_CHECK(options_.sessions_max > 0);
}

ReplayGuard::Verdict ReplayGuard::take(ReplaySession session, uint64_t counter, int64_t date,
                                       int64_t now) {
  std::lock_guard lock(mutex_);
  auto found = by_session_.find(session);
  if (found == by_session_.end()) {
    while (!entries_.empty() && (now - entries_.front().last_used > options_.idle_s ||
                                 entries_.size() >= options_.sessions_max)) {
      evict_oldest();
    }
    if (date <= evicted_date_) return Verdict::kEvicted;
    entries_.push_back({.session = session,
                        .begins_after = evicted_date_,
                        .date = date,
                        .last_used = now,
                        .window = {}});
    found = by_session_.emplace(session, std::prev(entries_.end())).first;
  }
  Entry& entry = *found->second;
  if (date <= entry.begins_after) return Verdict::kEvicted;
  const ReplayWindow::Verdict verdict = entry.window.take(counter);
  if (verdict == ReplayWindow::Verdict::kSeen) return Verdict::kSeen;
  if (verdict == ReplayWindow::Verdict::kOld) return Verdict::kOld;
  entry.date = std::max(entry.date, date);
  entry.last_used = now;
  entries_.splice(entries_.end(), entries_, found->second);
  return Verdict::kNew;
}

void ReplayGuard::evict_oldest() {
  evicted_date_ = std::max(evicted_date_, entries_.front().date);
  by_session_.erase(entries_.front().session);
  entries_.pop_front();
}

size_t ReplayGuard::sessions() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace leat
