// SPDX-License-Identifier: Apache-2.0
// Segment: one append-only pair of files: .data with the payload of small objects in whole pages,
// .index with one record for each. It includes the write buffer, for the bytes not yet on disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "cache/cache_directory.h"
#include "cache/capacity.h"
#include "cache/descriptor_pool.h"
#include "cache/packed/segment_readahead.h"
#include "cache/packed/segment_write_buffer.h"
#include "runtime/semaphore.h"

namespace leat {

// SlotsInFlight: slots that begin in the order of their offsets and end in any order. Not
// thread-safe.
class SlotsInFlight {
 public:
  // Returns the number to pass to end().
  uint64_t begin(uint64_t offset) {
    slots_.push_back({offset, false});
    return ended_ + slots_.size() - 1;
  }
  void end(uint64_t number) {
    slots_[number - ended_].done = true;
    for (; !slots_.empty() && slots_.front().done; ++ended_) slots_.pop_front();
  }
  bool empty() const { return slots_.empty(); }
  uint64_t first() const { return slots_.front().offset; }

 private:
  struct Slot {
    uint64_t offset;
    bool done;
  };
  std::deque<Slot> slots_;
  uint64_t ended_ = 0;  // slots removed from slots_
};

class Segment : public FdOwner, public std::enable_shared_from_this<Segment> {
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
  SegmentWriteBuffer write_buffer;
  SegmentReadaheadState readahead;

  std::atomic<int64_t> newest_ns = 0;   // arrival of its last object
  std::atomic<uint64_t> last_pass = 0;  // pass of the last use of one of its objects
  // Entries of the index in memory that point here, and copies about to count; bytes in whole
  // pages.
  std::atomic<int64_t> live_objects = 0, live_bytes = 0;
  // True if it has tombstones, or objects that replaced earlier copies: without it, objects in
  // earlier segments would return.
  std::atomic<bool> covers_earlier = false;
  // Copies in it that get their record when they are durable.
  std::atomic<int64_t> records_due = 0;
  // Tombstones for its objects that are not in a write buffer yet.
  const std::shared_ptr<std::atomic<int64_t>> tombstones_due =
      std::make_shared<std::atomic<int64_t>>(0);

  // Guarded by the mutex of PackedStore.
  uint64_t data_bytes = 0;    // offset of the next object
  uint64_t memory_bytes = 0;  // end of the write buffer's pieces
  SlotsInFlight filling;      // slots not yet filled
  bool sealed = false;
  // Kept open until all is written, so that a lack of descriptors loses nothing.
  FilePairPtr open_for_writing;
  bool whole_pages = false;    // sealed, and .data has whole pages
  bool names_durable = false;  // its files' names are durable
  std::atomic<bool> removing = false;
  bool compacting = false;       // must not be removed yet: moved objects may not be durable
  bool not_compactable = false;  // its index could not be read as a whole
  // All of .data below this is filled or unused.
  uint64_t filled_bytes() const { return filling.empty() ? data_bytes : filling.first(); }

  // A sync failed: accepts nothing more, and is removed with its last writer.
  std::atomic<bool> sync_failed = false;
  // A write of the write buffer failed: accepts nothing more; bytes in the files stay.
  std::atomic<bool> write_failed = false;
  // Returns true if everything accepted stays, as far as is known.
  bool is_sound() const { return !sync_failed && !write_failed && !removing; }

  // Set when the files are removed.
  const std::shared_ptr<SharedPromise<bool>> removed = SharedPromise<bool>::make();

  // One sync at a time; the next finds nothing left to do.
  Semaphore sync_semaphore{1};
  // Held while the write buffer is written.
  Semaphore write_semaphore{1};
  uint64_t index_bytes = 0;  // size of the index file; needs write_semaphore
  std::atomic<bool> write_queued = false;
  std::atomic<bool> write_all = false;  // not only whole pieces: the bytes have waited long enough
  // Batches written, and how many of them are durable.
  std::atomic<uint64_t> writes = 0, synced_writes = 0;
  std::atomic<uint64_t> synced_bytes = 0;  // durable bytes of .data
  std::atomic<bool> sync_queued = false;
};

}  // namespace leat
