// SPDX-License-Identifier: Apache-2.0
// BlockSet: which blocks were added within a day, approximately. It forgets some, and has one that
// was not added with a probability of 2^-24. Has 4 MiB of memory from the first block on.
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "model/file_ref.h"

namespace leat {

class BlockSet {
 public:
  bool empty() const { return !any_.load(std::memory_order_acquire); }

  void add(const FileId& id, uint64_t block) {
    std::call_once(first_, [this] {
      slots_ = std::vector<Slot>(kSlots);
      any_.store(true, std::memory_order_release);
    });
    const uint64_t hash = hash_of(id, block);
    slots_[hash % kSlots].store(mark_of(hash) | hour(), std::memory_order_relaxed);
  }
  bool contains(const FileId& id, uint64_t block) const {
    if (empty()) return false;
    const uint64_t hash = hash_of(id, block);
    return live_mark_in(hash) == mark_of(hash);
  }
  // Whether adding this block would make the set forget another one.
  bool is_crowded(const FileId& id, uint64_t block) const {
    if (empty()) return false;
    const uint64_t hash = hash_of(id, block);
    const uint32_t mark = live_mark_in(hash);
    return mark != 0 && mark != mark_of(hash);
  }

 private:
  using Slot = std::atomic<uint32_t>;
  static constexpr size_t kSlots = size_t{1} << 20;
  static constexpr uint32_t kHours = 0xff;  // the low bits of a slot; they repeat after ten days
  static constexpr uint32_t kLiveHours = 24;

  static uint32_t hour() {
    const auto hours =
        std::chrono::floor<std::chrono::hours>(std::chrono::steady_clock::now().time_since_epoch());
    return static_cast<uint32_t>(hours.count()) & kHours;
  }
  // 0: none.
  uint32_t live_mark_in(uint64_t hash) const {
    const uint32_t slot = slots_[hash % kSlots].load(std::memory_order_relaxed);
    const uint32_t age = (hour() - slot) & kHours;
    return age <= kLiveHours ? slot & ~kHours : 0;
  }

  // The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
  static uint64_t hash_of(const FileId& id, uint64_t block) {
    uint64_t hash = id.hash64() + block * 0x9e3779b97f4a7c15;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
    return hash ^ (hash >> 31);
  }
  // Never 0, which is an empty slot.
  static uint32_t mark_of(uint64_t hash) {
    return (static_cast<uint32_t>(hash >> 32) | 0x100) & ~kHours;
  }

  std::once_flag first_;
  std::atomic<bool> any_ = false;  // slots_ is there
  std::vector<Slot> slots_;
};

}  // namespace leat
