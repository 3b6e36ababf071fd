// SPDX-License-Identifier: Apache-2.0
// Capacity: the byte limit of a cache directory; bytes are reserved before they are written.
// Charge: the bytes of one object, released with the object's last holder. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/adaptive_mutex.h"
#include "model/byte_range.h"

namespace leat {

class Capacity {
 public:
  // `parent`: each reservation here is made there too, as for a pool within its directory.
  explicit Capacity(uint64_t configured_bytes, std::shared_ptr<Capacity> parent = nullptr)
      : configured_(configured_bytes), limit_(configured_bytes), parent_(std::move(parent)) {}

  // Returns false, and reserves nothing, if the limit would be exceeded.
  bool reserve(uint64_t bytes);
  // Adds bytes that are on disk already; ignores the limit.
  void count(uint64_t bytes);
  void release(uint64_t bytes);

  // Record that the disk rejected or accepted a write, whatever free space it shows (a quota, no
  // inodes). After a rejection the limit lies below the used bytes until eviction has run. This
  // happens once until a write succeeds, so a disk that accepts nothing does not cost the whole
  // cache.
  void note_write_rejected();
  void note_write_accepted() {
    if (write_rejected_.load(std::memory_order_relaxed)) write_rejected_ = false;
  }
  void eviction_ran() {
    ceiling_ = UINT64_MAX;
    largest_shortfall_ = 0;
  }

  // The file system has `free_bytes` more for this store; a negative value asks for bytes back. The
  // limit becomes the used bytes plus that, at most the configured capacity.
  void set_free_space(int64_t free_bytes);
  void configure(uint64_t bytes) { configured_ = limit_ = bytes; }

  uint64_t configured() const { return configured_; }
  uint64_t limit() const { return std::min(limit_.load(), ceiling_.load()); }
  uint64_t used() const { return used_; }
  uint64_t unlinked() const { return unlinked_; }
  // Returns the bytes to evict: 0 up to 98 % of the limit; above it, all bytes beyond 96 %. The
  // margins are at most 2 and 4 GiB. They grow after a larger reservation failed.
  uint64_t excess() const;
  bool under_pressure() const { return excess() > 0; }
  // Returns the bytes that can be added before eviction has to begin, here and in `parent`.
  uint64_t headroom() const;
  // Returns true if more is used than allowed, because the limit became lower.
  bool exceeded() const { return used_ > limit(); }

 private:
  friend class Charge;
  void note_shortfall(uint64_t bytes);
  uint64_t high_mark() const;
  void add_unlinked(uint64_t bytes);
  void remove_unlinked(uint64_t bytes);

  std::atomic<uint64_t> configured_;
  std::atomic<uint64_t> limit_, ceiling_ = UINT64_MAX;
  std::atomic<uint64_t> largest_shortfall_ =
      0;  // largest reservation that failed since the last eviction
  std::atomic<bool> write_rejected_ = false;
  std::atomic<uint64_t> used_ = 0;
  std::atomic<uint64_t> unlinked_ = 0;  // unlinked, but not yet released; part of used_
  const std::shared_ptr<Capacity> parent_;
};

class Charge {
 public:
  explicit Charge(std::shared_ptr<Capacity> capacity) : capacity_(std::move(capacity)) {}
  Charge(const Charge&) = delete;
  ~Charge();

  bool grow(uint64_t bytes);   // returns false if the capacity has no room for it
  void adopt(uint64_t bytes);  // for bytes that were reserved already
  void count(uint64_t bytes);  // for bytes that are on disk already
  void shrink(uint64_t bytes);
  // Marks the object as unlinked; from now on its bytes count as unlinked.
  void mark_unlinked();
  // The object could not be unlinked: its bytes stay on disk and stay counted.
  void never_release();
  uint64_t bytes() const;

 private:
  const std::shared_ptr<Capacity> capacity_;
  mutable AdaptiveMutex mutex_;  // leaf
  uint64_t bytes_ = 0;
  bool unlinked_ = false;
  bool never_released_ = false;
};

}  // namespace leat
