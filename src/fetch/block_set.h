// SPDX-License-Identifier: Apache-2.0
// BlockSet: which blocks were added, approximately: it forgets some, and has one that was not added
// with a probability of 2^-31. Has 4 MiB of memory from the first block on. Thread-safe.
#pragma once

#include <atomic>
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
    slots_[hash % kSlots].store(mark_of(hash), std::memory_order_relaxed);
  }
  bool contains(const FileId& id, uint64_t block) const {
    if (empty()) return false;
    const uint64_t hash = hash_of(id, block);
    return slots_[hash % kSlots].load(std::memory_order_relaxed) == mark_of(hash);
  }

 private:
  using Slot = std::atomic<uint32_t>;
  static constexpr size_t kSlots = size_t{1} << 20;

  // The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
  static uint64_t hash_of(const FileId& id, uint64_t block) {
    uint64_t hash = id.hash64() + block * 0x9e3779b97f4a7c15;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
    return hash ^ (hash >> 31);
  }
  // 0 is an empty slot.
  static uint32_t mark_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32) | 1; }

  std::once_flag first_;
  std::atomic<bool> any_ = false;  // slots_ is there
  std::vector<Slot> slots_;
};

}  // namespace leat
