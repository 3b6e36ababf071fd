// SPDX-License-Identifier: Apache-2.0
// S3Fifo: chooses the file to evict, with two FIFO queues and a list of evicted ids. New files
// enter the small queue (a tenth of the bytes). Files used again move to the main queue; files that
// return soon after eviction enter it at once. Source: Yang et al., "FIFO queues are all you need
// for cache eviction", SOSP 2023. Pure: no I/O, no clock, no locks. Other threads may touch only
// Evictable.
#pragma once

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>

#include "model/file_ref.h"

namespace leat {

// Evictable: the use of an object, recorded by its readers for eviction.
struct Evictable {
  static constexpr uint8_t kUsesMax = 3;  // two bits, as in the paper

  std::atomic<uint8_t> uses = 0;
  std::atomic<uint64_t> last_pass = 0;  // pass of the last use
  // Holders that need the file on disk: evicting it would free nothing.
  std::atomic<uint32_t> holders = 0;

  void touch() {
    uint8_t now = uses.load(std::memory_order_relaxed);
    while (now < kUsesMax && !uses.compare_exchange_weak(now, now + 1)) {
    }
  }
};

class S3Fifo {
 public:
  // `birth_ns` only orders files against segments.
  void insert(const FileId& id, std::shared_ptr<Evictable> object, uint64_t bytes,
              int64_t birth_ns);
  void resize(const FileId& id, uint64_t bytes);
  void remove(const FileId& id);
  // Removes and returns the next file; nothing if all have holders.
  std::optional<FileId> evict();

  // Removes and returns a file for which `stale(last pass)` is true. Checks a few files of each
  // queue and continues there on the next call.
  template <class Stale>
  std::optional<FileId> evict_stale(Stale stale);

  // Returns the birth of the front entry of each queue, the older of both.
  std::optional<int64_t> oldest_birth() const;
  size_t size() const { return positions_.size(); }

 private:
  struct Entry {
    FileId id;
    std::shared_ptr<Evictable> object;
    uint64_t bytes;
    int64_t birth_ns;
    bool in_main;
  };
  using Queue = std::list<Entry>;  // oldest at the front

  void promote(Queue& from);
  std::optional<FileId> pop_small();
  std::optional<FileId> pop_main();
  std::optional<FileId> pop(Queue& queue);
  void add_ghost(const FileId& id);

  void advance_hands(Queue::iterator entry);

  Queue small_, main_;
  // Position at which evict_stale continues.
  Queue::iterator small_hand_ = small_.end(), main_hand_ = main_.end();
  uint64_t small_bytes_ = 0, main_bytes_ = 0;
  int64_t newest_birth_ns_ = 0;
  boost::unordered_flat_map<FileId, Queue::iterator, IdHash> positions_;
  std::deque<FileId> ghosts_;
  boost::unordered_flat_set<FileId, IdHash> is_ghost_;
};

template <class Stale>
std::optional<FileId> S3Fifo::evict_stale(Stale stale) {
  constexpr size_t kScanMax = 64;
  for (Queue* queue : {&small_, &main_}) {
    Queue::iterator& at = queue == &small_ ? small_hand_ : main_hand_;
    for (size_t steps = std::min(queue->size(), kScanMax); steps > 0; --steps) {
      if (at == queue->end()) at = queue->begin();
      const Queue::iterator current = at++;
      const Evictable& object = *current->object;
      if (object.holders > 0 || !stale(object.last_pass.load())) continue;
      const FileId id = current->id;
      remove(id);
      return id;
    }
  }
  return std::nullopt;
}

}  // namespace leat
