// SPDX-License-Identifier: Apache-2.0
// Segment: one append-only pair of files, .data with the payload of small objects in whole pages
// and .index with a record for each, and the tail that is not in them yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "cache/cache_directory.h"
#include "cache/capacity.h"
#include "cache/descriptor_pool.h"
#include "cache/packed/neighbours.h"
#include "cache/packed/segment_tail.h"
#include "runtime/semaphore.h"

namespace leat {

// Places that were given out in the order of their offsets and end in any. Not thread-safe.
class PlacesInWork {
 public:
  // The number under which it ends.
  uint64_t begin(uint64_t offset) {
    places_.push_back({offset, false});
    return ended_ + places_.size() - 1;
  }
  void end(uint64_t number) {
    places_[number - ended_].done = true;
    for (; !places_.empty() && places_.front().done; ++ended_) places_.pop_front();
  }
  bool empty() const { return places_.empty(); }
  uint64_t first() const { return places_.front().offset; }

 private:
  struct Place {
    uint64_t offset;
    bool done;
  };
  std::deque<Place> places_;
  uint64_t ended_ = 0;  // that are no longer in places_
};

class Segment : public Openable, public std::enable_shared_from_this<Segment> {
 public:
  Segment(uint32_t number, int64_t birth, PoolPtr of)
      : sequence(number), birth_ns(birth), pool(std::move(of)), charge(pool->capacity) {}
  ~Segment() override;

  static std::string name(uint32_t sequence, const char* suffix);
  std::string data_name() const override { return name(sequence, ".data"); }
  std::string side_name() const override { return name(sequence, ".index"); }

  const uint32_t sequence;
  const int64_t birth_ns;
  const PoolPtr pool;
  Charge charge;
  SegmentTail tail;
  Neighbourhood neighbourhood;

  std::atomic<int64_t> newest_ns = 0;   // when its last object came
  std::atomic<uint64_t> last_pass = 0;  // in which one of its objects was used
  // What the index in memory still points to, and copies that are about to count; in whole pages.
  std::atomic<int64_t> live_objects = 0, live_bytes = 0;
  // It has words about drops, or places that took that of earlier ones: what lies in earlier
  // segments would be back without it.
  std::atomic<bool> covers_earlier = false;
  // Copies in it that get their record when they are on disk for good.
  std::atomic<int64_t> records_due = 0;
  // Words about its objects that are not in a tail yet.
  const std::shared_ptr<std::atomic<int64_t>> words_due = std::make_shared<std::atomic<int64_t>>(0);

  // Guarded by the mutex of PackedStore.
  uint64_t data_bytes = 0;    // where the next object goes
  uint64_t memory_bytes = 0;  // the end of the tail's pieces
  PlacesInWork filling;       // slots whose writers are not done
  bool sealed = false;
  // Kept open until all is written, so that a want of descriptors costs nothing that came in.
  FilePairPtr being_filled;
  bool whole_pages = false;  // sealed, and .data cut to whole pages
  bool named = false;        // its files' names are on disk for good
  std::atomic<bool> removing = false;
  bool compacting = false;          // must not go by itself: what moved may not be durable yet
  bool refuses_compaction = false;  // what its index says is not known
  // All of .data below this is filled, or nobody's.
  uint64_t filled_bytes() const { return filling.empty() ? data_bytes : filling.first(); }

  // Could not be synced: nothing comes in any more, and it goes with its last writer.
  std::atomic<bool> failed = false;
  // Its tail could not be written: nothing comes in any more, what is in the files stays.
  std::atomic<bool> cut_off = false;
  // Whether all that came in stays, as far as is known.
  bool is_sound() const { return !failed && !cut_off && !removing; }

  // Set when the files are gone.
  const std::shared_ptr<SharedResult<bool>> gone = SharedResult<bool>::make();

  // One sync at a time; the next finds that there is nothing left to do.
  Semaphore settle_turn{1};
  // Whoever writes the tail out holds it.
  Semaphore write_turn{1};
  uint64_t index_bytes = 0;  // of the file; under the turn
  std::atomic<bool> write_queued = false;
  std::atomic<bool> write_all = false;  // not only whole pieces: what is there came a while ago
  // Batches written, and how many of them are on disk for good.
  std::atomic<uint64_t> writes = 0, synced_writes = 0;
  std::atomic<uint64_t> synced_bytes = 0;  // of .data, on disk for good
  std::atomic<bool> settling_queued = false;
};

}  // namespace leat
