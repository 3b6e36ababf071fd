// SPDX-License-Identifier: Apache-2.0
// Capacity: the bytes of a cache directory, reserved before they are written. Charge: the share of
// one object, given back when the object's last holder is gone. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/adaptive_mutex.h"

namespace leat {

// The unit in which file systems give out space, and to which payload is aligned.
inline constexpr uint64_t kPageBytes = 4096;

class Capacity {
 public:
  // `above`: what is taken here is taken there, too: a pool's share of the directory's.
  explicit Capacity(uint64_t configured_bytes, std::shared_ptr<Capacity> above = nullptr)
      : configured_(configured_bytes), limit_(configured_bytes), above_(std::move(above)) {}

  // False, and nothing is taken, where it would exceed the limit.
  bool reserve(uint64_t bytes);
  // For what is on disk already.
  void count(uint64_t bytes);
  void give_back(uint64_t bytes);

  // The disk refused or took a write, whatever room it shows (a quota, no more inodes). After a
  // refusal the limit lies below what is used until eviction has run; once, until a write succeeds,
  // so that a disk that takes nothing any more does not cost everything that is here.
  void note_refused();
  void note_taken() {
    if (refused_.load(std::memory_order_relaxed)) refused_ = false;
  }
  void eviction_ran() {
    ceiling_ = UINT64_MAX;
    short_of_ = 0;
  }

  // The file system has `room` more bytes for this store (negative: it wants some back). The limit
  // becomes what is used plus that, and never more than what is configured.
  void set_room(int64_t room_bytes);
  void configure(uint64_t bytes) { configured_ = limit_ = bytes; }

  uint64_t configured() const { return configured_; }
  uint64_t limit() const { return std::min(limit_.load(), ceiling_.load()); }
  uint64_t used() const { return used_; }
  uint64_t held() const { return held_; }
  // What has to go: nothing up to 98 % of the limit, above it whatever is beyond 96 %; of large
  // ones the margins are 2 and 4 GiB. More where something larger than that found no room.
  uint64_t excess() const;
  bool pressed() const { return excess() > 0; }
  // What may still come before something has to go, here and above.
  uint64_t room() const;
  // More is used than may be, since the limit became lower.
  bool exceeded() const { return used_ > limit(); }

 private:
  friend class Charge;
  void note_short_of(uint64_t bytes);
  uint64_t high_mark() const;
  void hold(uint64_t bytes);
  void unhold(uint64_t bytes);

  std::atomic<uint64_t> configured_;
  std::atomic<uint64_t> limit_, ceiling_ = UINT64_MAX;
  std::atomic<uint64_t> short_of_ = 0;  // the most that found no room since the last eviction
  std::atomic<bool> refused_ = false;
  std::atomic<uint64_t> used_ = 0;
  std::atomic<uint64_t> held_ = 0;  // unlinked, but not yet given back; part of used_
  const std::shared_ptr<Capacity> above_;
};

class Charge {
 public:
  explicit Charge(std::shared_ptr<Capacity> capacity) : capacity_(std::move(capacity)) {}
  Charge(const Charge&) = delete;
  ~Charge();

  bool grow(uint64_t bytes);   // false where the capacity has no room for it
  void adopt(uint64_t bytes);  // for what was reserved already
  void count(uint64_t bytes);  // for what is on disk already
  void shrink(uint64_t bytes);
  // The object is unlinked; from now on its bytes are only held.
  void hold();
  // The object could not be unlinked: its bytes stay on disk and stay counted.
  void never_give_back();
  uint64_t bytes() const;

 private:
  const std::shared_ptr<Capacity> capacity_;
  mutable AdaptiveMutex mutex_;  // leaf
  uint64_t bytes_ = 0;
  bool held_ = false;
  bool kept_ = false;
};

}  // namespace leat
