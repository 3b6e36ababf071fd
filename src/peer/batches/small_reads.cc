// SPDX-License-Identifier: Apache-2.0
#include "peer/batches/small_reads.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leat {
namespace {

// Route fields apply to a whole batch.
bool go_together(const PeerRead& a, const PeerRead& b) {
  return a.route.epoch == b.route.epoch && a.route.instead == b.route.instead &&
         a.route.replicas == b.route.replicas;
}

}  // namespace

bool SmallReads::go(Clock::time_point now) {
  std::lock_guard lock(mutex_);
  return take_place(now);
}

bool SmallReads::take_place(Clock::time_point now) {
  if (under_way_ >= options_.under_way_max && now >= alone_until_) return false;
  ++under_way_;
  return true;
}

SmallReads::Entry SmallReads::enter(const SmallReadPtr& read, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (take_place(now)) return Entry::kGo;
  read->since = now;
  waiting_.push_back(read);
  return std::exchange(watched_, true) ? Entry::kWait : Entry::kWaitAndWatch;
}

bool SmallReads::leave(const SmallReadPtr& read) {
  std::lock_guard lock(mutex_);
  std::erase(waiting_, read);
  return read->alone;
}

std::vector<SmallReadPtr> SmallReads::ended() {
  std::lock_guard lock(mutex_);
  LEAT_CHECK(under_way_ > 0);
  if (!waiting_.empty() && under_way_ <= options_.under_way_max) return take_group();
  --under_way_;
  return {};
}

std::vector<SmallReadPtr> SmallReads::late(Clock::time_point now, bool* again) {
  std::lock_guard lock(mutex_);
  *again = watched_ = !waiting_.empty();
  if (waiting_.empty() || now - waiting_.front()->since < options_.patience) return {};
  ++under_way_;
  return take_group();
}

void SmallReads::came(size_t reads, size_t of, Clock::time_point now) {
  if (2 * reads >= of) return;
  std::lock_guard lock(mutex_);
  alone_until_ = now + options_.alone_time;
}

std::vector<SmallReadPtr> SmallReads::take_group() {
  std::vector<SmallReadPtr> group{waiting_.front()};
  waiting_.pop_front();
  uint64_t bytes = group.front()->request.range.size;
  auto at = waiting_.begin();
  auto stays = at;
  for (; at != waiting_.end() && group.size() < options_.together_max; ++at) {
    const uint64_t more = (*at)->request.range.size;
    const bool along = bytes + more <= options_.bytes_together_max &&
                       go_together(group.front()->request, (*at)->request);
    if (along) {
      bytes += more;
      group.push_back(std::move(*at));
    } else {
      (stays++)->swap(*at);
    }
  }
  waiting_.erase(stays, at);
  group.front()->alone = group.size() == 1;
  return group;
}

unsigned SmallReads::under_way() const {
  std::lock_guard lock(mutex_);
  return under_way_;
}

size_t SmallReads::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_.size();
}

}  // namespace leat
