// SPDX-License-Identifier: Apache-2.0
// PackedStore: the small objects, whole, in append-only segments. The index is in memory; what a
// start needs is in the segments' .index files. Thread-safe.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/packed_index.h"
#include "cache/page_store.h"
#include "cache/segment.h"
#include "cache/segment_record.h"

namespace leat {

class PackedStore : public std::enable_shared_from_this<PackedStore> {
 public:
  explicit PackedStore(std::shared_ptr<CacheDirectory> directory);

  // Reads what is on disk; cuts torn tails. Blocks; before any other call.
  Result<> load();

  // The operations of PageStore, for objects of this kind; ranges lie within the object. What is
  // written must be the whole object.
  bool contains(const FileId& id) const;
  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range);
  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range);
  Task<Result<>> write(Context context, FileRefPtr ref, Bytes data);
  uint64_t cached_bytes(const FileId& id) const;
  uint64_t drop(const FileId& id);
  Task<Result<>> flush();

  uint64_t object_count() const;
  uint64_t segment_count() const;
  // When the segment came that would be evicted next, and its eviction: the bytes that are free
  // then, 0 where there is none. Objects read since they were written move on to the newest
  // segment, up to a quarter of the segment.
  std::optional<int64_t> oldest_birth() const;
  Task<uint64_t> evict_one();

 private:
  using SegmentPtr = std::shared_ptr<Segment>;
  using Entry = PackedIndex::Entry;
  struct Shard {
    mutable std::mutex mutex;  // leaf
    PackedIndex entries;
    // One writer an object; the others wait for its end.
    boost::unordered_flat_map<FileId, std::shared_ptr<SharedResult<bool>>, IdHash> writing;
    // Each shard has them all, so that a reader takes one lock that few share.
    boost::unordered_flat_map<uint32_t, SegmentPtr> segments;
  };
  struct Found {
    Entry entry;
    SegmentPtr segment;  // null where it is gone already
  };
  struct Slot {
    SegmentPtr segment;
    uint64_t offset;
    uint64_t bytes;  // whole pages
  };
  struct Moving {
    SegmentRecord record;
    Entry from;
  };

  Shard& shard(const FileId& id) const { return shards_[id.bytes[15] % shards_.size()]; }
  std::optional<Found> find(const FileId& id) const;
  SegmentPtr segment(uint32_t sequence) const;
  // What the shards know of a segment; null: nothing any more.
  void tell_shards(uint32_t sequence, const SegmentPtr& segment);

  Task<Result<>> store(Context context, FileRefPtr ref, Bytes data,
                       std::optional<Entry> moved_from);
  Task<Result<>> fill_slot(Context context, Slot slot, SegmentRecord record, Bytes data,
                           std::optional<Entry> moved_from);
  bool enter(const FileId& id, const Entry& entry, const SegmentPtr& into,
             std::optional<Entry> moved_from);
  Task<Result<Slot>> take_slot(Context context, uint64_t bytes);
  void release_slot(const Slot& slot, bool filled, uint64_t charged);
  Task<Result<SegmentPtr>> create_segment();

  bool matches(const Found& found, std::span<const std::byte> whole) const;
  void note_read(const FileId& id, const Found& found);
  Error lost(const FileId& id, const Entry& entry, const std::string& key, const std::string& why);
  bool forget(const FileId& id, const Entry& entry);

  void object_left(uint32_t sequence);
  void remove_if_dead(const SegmentPtr& segment);

  bool begin_removal(const SegmentPtr& segment);
  bool is_leaving(uint32_t sequence) const;

  static Task<> record_drop(std::shared_ptr<PackedStore> self, FileId id, uint32_t sequence);
  static Task<> settle_in_background(std::shared_ptr<PackedStore> self, SegmentPtr segment);
  static Task<> remove_in_background(std::shared_ptr<PackedStore> self, SegmentPtr segment);
  Task<Result<>> settle(SegmentPtr segment);
  void queue_settling(const SegmentPtr& segment);
  void give_up(const SegmentPtr& segment, const Status& why);
  Task<> remove(SegmentPtr segment);

  // packed_store_evict.cc
  SegmentPtr take_oldest();
  Task<std::vector<Moving>> worth_moving(SegmentPtr segment);
  Task<uint64_t> move_read_objects(SegmentPtr segment);
  void forget_all_of(uint32_t sequence);

  // packed_store_load.cc
  Result<> load_segment(uint32_t sequence, const DirectoryItem& data);
  void load_record(const SegmentRecord& record, Segment& segment, uint64_t data_file_bytes);
  void set_length(const std::string& name, uint64_t from, uint64_t to);
  void discard_dead_segments();
  void discard_on_disk(uint32_t sequence, const std::string& why);

  const std::shared_ptr<CacheDirectory> directory_;
  const uint64_t segment_bytes_;
  mutable std::array<Shard, 64> shards_;

  mutable std::mutex mutex_;                 // leaf
  std::map<uint32_t, SegmentPtr> segments_;  // oldest first
  SegmentPtr active_;
  std::shared_ptr<SharedResult<bool>> creating_;
  uint32_t next_sequence_ = 1;
};

}  // namespace leat
