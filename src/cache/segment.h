// SPDX-License-Identifier: Apache-2.0
// Segment: one append-only pair of files, .data with the payload of small objects in whole pages
// and .index with a record for each. Records of concurrent writers are appended in one write.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "cache/cache_directory.h"
#include "cache/capacity.h"
#include "cache/descriptor_pool.h"

namespace leat {

class Segment : public Openable, public std::enable_shared_from_this<Segment> {
 public:
  Segment(uint32_t number, int64_t birth, std::shared_ptr<Capacity> capacity)
      : sequence(number), birth_ns(birth), charge(std::move(capacity)) {}
  ~Segment() override;

  static std::string name(uint32_t sequence, const char* suffix);
  std::string data_name() const override { return name(sequence, ".data"); }
  std::string side_name() const override { return name(sequence, ".index"); }

  // Appends `record` to the index; returns when it is written (not synced). The space must have
  // been charged. The caller keeps this alive.
  Task<Result<>> append(std::shared_ptr<CacheDirectory> directory, std::string record);
  // The index as found or as created.
  void set_index_bytes(uint64_t bytes) { index_bytes_ = bytes; }

  const uint32_t sequence;
  const int64_t birth_ns;
  Charge charge;

  std::atomic<int64_t> live_objects = 0;  // that the index in memory still points to
  std::atomic<bool> has_drops = false;    // words about objects of this and of earlier segments

  // Guarded by the mutex of PackedStore.
  uint64_t data_bytes = 0;          // where the next object goes
  std::multiset<uint64_t> filling;  // offsets of slots whose writers are not done
  bool sealed = false;
  bool whole_pages = false;  // sealed, and .data cut to whole pages
  bool removing = false;
  // All of .data below this is filled, or nobody's.
  uint64_t filled_bytes() const { return filling.empty() ? data_bytes : *filling.begin(); }

  // Could not be synced: nothing comes in any more, and it goes with its last writer.
  std::atomic<bool> failed = false;
  // Appends made, and how many of them are on disk for good.
  std::atomic<uint64_t> writes = 0, synced_writes = 0;
  std::atomic<uint64_t> synced_bytes = 0;  // of .data, on disk for good
  std::atomic<bool> settling_queued = false;

 private:
  Task<> write_batches(std::shared_ptr<CacheDirectory> directory);
  Task<Result<>> write_batch(std::shared_ptr<CacheDirectory> directory, std::string batch);

  std::mutex mutex_;  // leaf
  std::string pending_;
  std::shared_ptr<SharedResult<bool>> batch_;  // of what is in pending_
  bool writing_ = false;
  uint64_t index_bytes_ = 0;  // only touched by the one who writes
};

}  // namespace leat
