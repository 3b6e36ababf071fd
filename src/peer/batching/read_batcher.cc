// SPDX-License-Identifier: Apache-2.0
#include "peer/batching/read_batcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leat {
namespace {

// Route fields apply to a whole batch.
bool may_share_batch(const PeerRead& a, const PeerRead& b) {
  return a.route.epoch == b.route.epoch && a.route.failover_for == b.route.failover_for &&
         a.route.replicas == b.route.replicas;
}

}  // namespace

bool ReadBatcher::try_admit(Clock::time_point now) {
  std::lock_guard lock(mutex_);
  return try_take_slot(now);
}

bool ReadBatcher::try_take_slot(Clock::time_point now) {
  if (in_flight_ >= options_.in_flight_max && now >= unbatched_until_) return false;
  ++in_flight_;
  return true;
}

ReadBatcher::Admission ReadBatcher::admit(const QueuedReadPtr& read, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (try_take_slot(now)) return Admission::kSendNow;
  read->since = now;
  waiting_.push_back(read);
  return std::exchange(polled_, true) ? Admission::kWait : Admission::kWaitAndPoll;
}

bool ReadBatcher::withdraw(const QueuedReadPtr& read) {
  std::lock_guard lock(mutex_);
  std::erase(waiting_, read);
  return read->unbatched;
}

std::vector<QueuedReadPtr> ReadBatcher::request_ended() {
  std::lock_guard lock(mutex_);
  LEAT_CHECK(in_flight_ > 0);
  if (!waiting_.empty() && in_flight_ <= options_.in_flight_max) return take_batch();
  --in_flight_;
  return {};
}

std::vector<QueuedReadPtr> ReadBatcher::take_due(Clock::time_point now, bool* again) {
  std::lock_guard lock(mutex_);
  *again = polled_ = !waiting_.empty();
  if (waiting_.empty() || now - waiting_.front()->since < options_.wait_max) return {};
  ++in_flight_;
  return take_batch();
}

void ReadBatcher::record_batch(size_t reads, size_t of, Clock::time_point now) {
  if (2 * reads >= of) return;
  std::lock_guard lock(mutex_);
  unbatched_until_ = now + options_.unbatched_time;
}

std::vector<QueuedReadPtr> ReadBatcher::take_batch() {
  std::vector<QueuedReadPtr> batch{waiting_.front()};
  waiting_.pop_front();
  uint64_t bytes = batch.front()->request.range.size;
  auto at = waiting_.begin();
  auto rest = at;
  for (; at != waiting_.end() && batch.size() < options_.batch_reads_max; ++at) {
    const uint64_t more = (*at)->request.range.size;
    const bool fits = bytes + more <= options_.batch_bytes_max &&
                      may_share_batch(batch.front()->request, (*at)->request);
    if (fits) {
      bytes += more;
      batch.push_back(std::move(*at));
    } else {
      (rest++)->swap(*at);
    }
  }
  waiting_.erase(rest, at);
  batch.front()->unbatched = batch.size() == 1;
  return batch;
}

unsigned ReadBatcher::in_flight() const {
  std::lock_guard lock(mutex_);
  return in_flight_;
}

size_t ReadBatcher::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_.size();
}

}  // namespace leat
