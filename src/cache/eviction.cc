// SPDX-License-Identifier: Apache-2.0
#include "cache/eviction.h"

#include <algorithm>

#include "base/check.h"

namespace leat {
namespace {

constexpr uint64_t kSmallShare = 10;  // the small queue has a tenth of the bytes
constexpr size_t kGhostsMin = 64;     // lower limit where the main queue is short

}  // namespace

void S3Fifo::insert(const FileId& id, std::shared_ptr<Evictable> object, uint64_t bytes,
                    int64_t birth_ns) {
  LEAT_CHECK(!positions_.contains(id));
  bool seen = is_ghost_.erase(id) > 0;
  if (seen) ghosts_.erase(std::find(ghosts_.begin(), ghosts_.end(), id));
  Queue& queue = seen ? main_ : small_;
  queue.push_back({id, std::move(object), bytes, birth_ns, seen});
  (seen ? main_bytes_ : small_bytes_) += bytes;
  newest_birth_ns_ = std::max(newest_birth_ns_, birth_ns);
  positions_[id] = std::prev(queue.end());
}

void S3Fifo::resize(const FileId& id, uint64_t bytes) {
  auto position = positions_.find(id);
  if (position == positions_.end()) return;
  Entry& entry = *position->second;
  uint64_t& total = entry.in_main ? main_bytes_ : small_bytes_;
  total = total - entry.bytes + bytes;
  entry.bytes = bytes;
}

void S3Fifo::remove(const FileId& id) {
  auto position = positions_.find(id);
  if (position == positions_.end()) return;
  Queue::iterator entry = position->second;
  advance_hands(entry);
  (entry->in_main ? main_bytes_ : small_bytes_) -= entry->bytes;
  (entry->in_main ? main_ : small_).erase(entry);
  positions_.erase(position);
}

std::optional<FileId> S3Fifo::evict() {
  // Each step lowers a use count, moves an entry to the main queue once, or passes over one that
  // has holders.
  size_t steps = positions_.size() * (Evictable::kUsesMax + 3) + 1;
  for (; steps > 0 && !positions_.empty(); --steps) {
    bool small_is_full = small_bytes_ * kSmallShare >= small_bytes_ + main_bytes_;
    bool from_small = !small_.empty() && (small_is_full || main_.empty());
    auto taken = from_small ? pop_small() : pop_main();
    if (taken) return taken;
  }
  return std::nullopt;
}

std::optional<FileId> S3Fifo::pop_small() {
  Entry& entry = small_.front();
  if (entry.object->holders > 0 || entry.object->uses > 1) {
    promote(small_);
    return std::nullopt;
  }
  add_ghost(entry.id);
  return pop(small_);
}

std::optional<FileId> S3Fifo::pop_main() {
  Entry& entry = main_.front();
  if (entry.object->holders > 0 || entry.object->uses > 0) {
    if (entry.object->uses > 0) --entry.object->uses;
    promote(main_);
    return std::nullopt;
  }
  return pop(main_);
}

// Moves the hands off an entry that leaves its queue.
void S3Fifo::advance_hands(Queue::iterator entry) {
  if (small_hand_ == entry) ++small_hand_;
  if (main_hand_ == entry) ++main_hand_;
}

// Moves the first of `from` to the end of the main queue.
void S3Fifo::promote(Queue& from) {
  advance_hands(from.begin());
  Entry& entry = from.front();
  if (!entry.in_main) {
    entry.in_main = true;
    entry.object->uses = 0;
    small_bytes_ -= entry.bytes;
    main_bytes_ += entry.bytes;
  }
  entry.birth_ns = newest_birth_ns_;
  main_.splice(main_.end(), from, from.begin());
}

std::optional<FileId> S3Fifo::pop(Queue& queue) {
  FileId id = queue.front().id;
  remove(id);
  return id;
}

void S3Fifo::add_ghost(const FileId& id) {
  if (!is_ghost_.insert(id).second) return;
  ghosts_.push_back(id);
  while (ghosts_.size() > std::max(main_.size(), kGhostsMin)) {
    is_ghost_.erase(ghosts_.front());
    ghosts_.pop_front();
  }
}

std::optional<int64_t> S3Fifo::oldest_birth() const {
  std::optional<int64_t> oldest;
  if (!small_.empty()) oldest = small_.front().birth_ns;
  if (!main_.empty()) oldest = std::min(oldest.value_or(INT64_MAX), main_.front().birth_ns);
  return oldest;
}

}  // namespace leat
