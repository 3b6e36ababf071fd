// SPDX-License-Identifier: Apache-2.0
// PackedStore: small objects, stored whole in append-only segments. The index is in memory; a start
// rebuilds it from the segments' .index files. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/adaptive_mutex.h"
#include "cache/cache_directory.h"
#include "cache/host_cache.h"
#include "cache/packed/packed_index.h"
#include "cache/packed/segment.h"
#include "cache/packed/segment_index.h"
#include "cache/packed/segment_record.h"
#include "cache/readahead.h"
#include "cache/scrub_limiter.h"

namespace leat {

class PackedStore : public std::enable_shared_from_this<PackedStore> {
 public:
  explicit PackedStore(std::shared_ptr<CacheDirectory> directory);

  // Loads the segments on disk, truncates torn tails and skips damaged records. `clean`: the
  // directory was closed cleanly, so no tail is torn. Blocks; call before any other function.
  Result<> load(bool clean);

  // The operations of PageStore for packed objects. Ranges lie within the object. A write must
  // contain the whole object.
  bool contains(const FileId& id) const;
  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range);
  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range);
  std::optional<SendfileRange> sendfile_range(const FileId& id, ByteRange range);
  // Returns the object's extent on disk; nothing if it is missing or still in memory.
  std::optional<FileExtent> file_extent(const FileId& id) const;
  Task<Result<>> write(Context context, FileRefPtr ref, Bytes data);
  // Same as write() if it need not wait. Otherwise returns nothing and has no effect.
  std::optional<Result<>> try_write(const FileRef& ref, const Bytes& data);
  uint64_t cached_bytes(const FileId& id) const;
  uint64_t drop(const FileId& id);
  Task<Result<>> flush();

  // Compacts one segment at a time: moves its live objects to the open segment. Pauses for
  // `interval` after each and runs until the directory stops.
  static Task<> run_compaction(std::shared_ptr<PackedStore> self, Clock::duration interval);

  uint64_t object_count() const;
  uint64_t segment_count() const;
  // oldest_birth() returns the birth of the pool's next segment to evict. evict_one() evicts it and
  // returns the freed bytes, 0 if there is none. `stale`: only a segment of which nothing is used
  // any more. Objects read since they were written move to the newest segment, up to two thirds of
  // the segment; not if the pool is cyclic.
  std::optional<int64_t> oldest_birth(const Pool& pool) const;
  Task<uint64_t> evict_one(PoolPtr pool, bool stale);
  // Evicts the open segment, for a pool that has no other one.
  Task<uint64_t> evict_open(PoolPtr pool);
  // Evicts the segments of a pool that got their last object before `before_ns`; returns the bytes.
  // Seals open segments begun before `sealed_before_ns`, so that they expire later.
  Task<uint64_t> expire(PoolPtr pool, int64_t before_ns, int64_t sealed_before_ns);

  // Returns the first segment number at or after `sequence`.
  std::optional<uint32_t> segment_from(uint64_t sequence) const;
  // Compares one segment on disk and drops wrong objects.
  Task<> scrub(uint32_t sequence, ScrubLimiter& limiter);
  // Appends objects from `from` on, until `into` has `limit` of them. Returns the position to
  // continue at; nothing after the last object. Blocks.
  struct ListPosition {
    uint64_t sequence = 0;
    uint64_t index_offset = 0;
  };
  Result<std::optional<ListPosition>> list(ListPosition from, size_t limit,
                                           std::vector<CachedObject>& into) const;

 private:
  using SegmentPtr = std::shared_ptr<Segment>;
  using Entry = PackedIndex::Entry;
  struct Shard {
    mutable AdaptiveMutex mutex;  // leaf
    PackedIndex entries;
    // Each shard has all segments, so a reader takes one lock with little contention.
    boost::unordered_flat_map<uint32_t, SegmentPtr> segments;
    // Objects in compaction: the later location, which counts when it is durable.
    boost::unordered_flat_map<FileId, Entry, IdHash> copies;
  };
  struct Lookup {
    Entry entry;
    SegmentPtr segment;  // null if it is removed already
  };
  struct Slot {
    SegmentPtr segment;
    uint64_t offset;
    SegmentWriteBuffer::Reservation reservation;
    uint64_t number;  // in the segment's SlotsInFlight
  };
  struct LiveRecord {
    SegmentRecord record;
    Entry from;
  };
  struct LocatedObject {
    FileId id;
    Entry entry;
  };

  Shard& shard(const FileId& id) const { return shards_[id.bytes[15] % shards_.size()]; }
  std::optional<Lookup> find(const FileId& id) const;
  SegmentPtr segment(uint32_t sequence) const;
  // Sets the segment in all shards; null removes it.
  void update_shards(uint32_t sequence, const SegmentPtr& segment);

  // An object that is about to get a slot.
  struct Incoming {
    const FileRef& ref;
    const Bytes& data;
    PoolPtr pool;
    std::vector<uint32_t> crcs;
    uint64_t charged;  // reserved already
    std::optional<Entry> moved_from;
  };
  Result<Incoming> reserve(const FileRef& ref, const Bytes& data, std::optional<Entry> moved_from);
  Result<> put(const Incoming& object, Slot slot);
  Task<Result<>> store(Context context, FileRefPtr ref, Bytes data,
                       std::optional<Entry> moved_from);
  bool insert_entry(const FileId& id, const Entry& entry, const Slot& slot,
                    const std::string& record, bool moved);
  // Returns nothing if the write buffers are full or a new segment is needed.
  std::optional<Slot> try_take_slot(const Pool& pool, uint64_t bytes);
  // Compaction evicts nothing, whatever the disk answers.
  enum class SlotUser { kWriter, kCompaction };
  Task<Result<Slot>> take_slot(Context context, PoolPtr pool, uint64_t bytes,
                               SlotUser user = SlotUser::kWriter);
  void release_slot(const Slot& slot);
  Task<Result<>> begin_segment(Context context, PoolPtr pool, SlotUser user);
  Task<Result<SegmentPtr>> create_segment(PoolPtr pool, SlotUser user);
  // Need the mutex. open_segment() returns the open segment of a pool, or null.
  SegmentPtr open_segment(PoolId pool) const;
  bool is_open(const SegmentPtr& segment) const {
    return open_segment(segment->pool->id) == segment;
  }
  void seal(const SegmentPtr& segment);
  bool write_buffers_are_full() const;
  bool is_full(const Segment& segment, uint64_t more) const;

  Task<Result<Bytes>> read_object(Context context, FileRefPtr ref, ByteRange range, bool begins);
  std::optional<Bytes> read_write_buffer(const FileId& id, const Lookup& found, ByteRange range,
                                         bool begins);
  // Returns true if the page cache lacks the object and readahead of its piece has begun.
  bool submit_segment_readahead(const Lookup& found, const FilePair& files, ByteRange wanted);
  bool matches(const Lookup& found, std::span<const std::byte> whole) const;
  // `begins`: the read begins a pass, for eviction.
  void note_read(const FileId& id, const Lookup& found, bool begins);
  Error drop_corrupt(const FileId& id, const Entry& entry, const std::string& key,
                     const std::string& why);
  // `copy` receives the new location if compaction was moving the object.
  bool remove_entry(const FileId& id, const Entry& entry, std::optional<Entry>* copy = nullptr);

  static void count_live(Segment& segment, const Entry& entry);
  void uncount_live(const Entry& entry);
  void remove_if_dead(const SegmentPtr& segment);
  bool begin_removal(const SegmentPtr& segment);

  static Task<> sync_in_background(std::shared_ptr<PackedStore> self, SegmentPtr segment);
  static Task<> remove_in_background(std::shared_ptr<PackedStore> self, SegmentPtr segment);
  Task<Result<>> sync_segment(SegmentPtr segment);
  Task<Result<>> sync_to_end(SegmentPtr segment);
  Task<Result<>> finish_file(SegmentPtr segment, FilePairPtr files);
  void queue_sync(const SegmentPtr& segment);
  void fail_segment(const SegmentPtr& segment, const Status& why);
  Task<> remove(SegmentPtr segment);

  // packed_store_drop.cc
  void queue_tombstone(const FileId& id, const Entry& dropped);
  static std::string encode_tombstone(const FileId& id, const Entry& dropped);
  static Task<> write_tombstone_in_background(std::shared_ptr<PackedStore> self, FileId id,
                                              Entry dropped, PoolPtr pool,
                                              std::shared_ptr<std::atomic<int64_t>> due);
  Task<> write_tombstone(std::string record, FileId id, uint32_t named_segment, PoolPtr pool);
  Task<Result<SegmentPtr>> append_tombstone(std::string record, PoolPtr pool, SlotUser user);
  bool is_being_removed(uint32_t sequence) const;
  bool stranded_before(uint32_t sequence) const;
  bool covers_existing(const Segment& segment) const;  // needs the mutex
  Task<> wait_for_removals(uint32_t end);
  Task<Result<>> sync_names();

  // packed_store_compact.cc
  struct Copy {
    FileId id;
    Entry place;
    SegmentPtr into;
    bool restart_age;      // read, after eviction had passed its segment: its age starts again
    std::string record{};  // pending until it is in the write buffer
    bool durable = false;  // payload, record and names

    bool recorded() const { return record.empty(); }
  };
  struct Compaction {
    SegmentPtr segment;
    Buffer index{};
    std::vector<Copy> copies{};  // not counted yet
    std::vector<SegmentPtr> tombstones_in{};
    uint64_t batch_bytes = 0;
  };
  SegmentPtr take_sparse_segment();
  bool has_room(const Pool& pool, uint64_t bytes) const;
  Task<> compact(SegmentPtr segment);
  Task<Result<Buffer>> whole_index(SegmentPtr segment);
  Task<bool> move_all(Compaction& work);
  Task<bool> move_record(Compaction& work, SegmentRecord record);
  Task<bool> move_tombstone(Compaction& work, SegmentRecord tombstone);
  bool is_needed(const SegmentRecord& tombstone, const Segment& in) const;
  Task<bool> move_object(Compaction& work, SegmentRecord record, Entry from);
  Task<bool> write_buffers_have_room();
  void place_copy(Compaction& work, const Incoming& object, const Slot& slot, Copy copy,
                  uint32_t origin);
  Task<bool> finish_copies(Compaction& work);
  Task<bool> sync_segments(std::vector<SegmentPtr> segments);
  bool write_copy_records(Compaction& work);
  bool resolve(const Copy& copy);
  static std::optional<Entry> take_copy(Shard& part, const FileId& id);  // needs its mutex
  Task<> end_compaction(SegmentPtr segment, bool moved_all);
  bool must_stop(const Segment& segment) const;
  uint32_t evicted_up_to(const Pool& pool) const;

  // packed_store_write_buffer.cc
  enum class WriteExtent { kWholePieces, kAll };
  Task<Result<>> write_out(SegmentPtr segment, WriteExtent extent);
  FilePairPtr files_for_writing(const Segment& segment) const;
  std::optional<uint64_t> end_of_batch(const Segment& segment, WriteExtent extent) const;
  Result<> write_batches(Segment& segment, const FilePair& files, WriteExtent extent);
  void discard_write_buffer(const SegmentPtr& segment, const Status& why);
  void release_pieces(uint64_t pieces);
  void queue_writing(const SegmentPtr& segment);
  static Task<> write_in_background(std::shared_ptr<PackedStore> self, SegmentPtr segment);
  // Schedules a write of the write buffers within a second.
  void start_write_timer();
  static Task<> write_after_delay(std::shared_ptr<PackedStore> self);

  // packed_store_evict.cc
  enum class EvictionTarget { kOldest, kStale, kOpen };
  SegmentPtr take_oldest(const Pool& pool, EvictionTarget which);
  void discard_unwritten(const SegmentPtr& segment);
  // Returns the freed bytes.
  Task<uint64_t> evict(SegmentPtr segment, bool keep_read);
  Task<std::vector<LiveRecord>> worth_moving(SegmentPtr segment);
  Task<uint64_t> move_read_objects(SegmentPtr segment);
  // Removes the index entries of a segment from `page` on; returns their number.
  uint64_t remove_entries_from(Segment& segment, uint32_t page);
  Task<> rewrite_tombstones(SegmentPtr segment);

  // packed_store_maintenance.cc
  std::vector<LiveRecord> live_records(const Segment& segment, SegmentIndex& index,
                                       size_t limit) const;
  Task<bool> compare_all(const FilePair& files, std::span<const LiveRecord> live,
                         ScrubLimiter& limiter);
  uint64_t compare(const FilePair& files, std::span<const LiveRecord> objects);
  bool can_read(const FilePair& files) const;

  // packed_store_repair.cc
  struct KnownIndex {
    Buffer bytes;
    uint64_t known;  // bytes surely written
  };
  Task<Result<KnownIndex>> read_index(SegmentPtr segment);
  bool header_is_whole(const Segment& segment, std::span<const std::byte> index) const;
  Task<> repair_index(SegmentPtr segment, FilePairPtr files);
  std::vector<LocatedObject> objects_in(const Segment& segment, uint64_t end) const;
  Result<> overwrite_header(const Segment& segment, int fd);
  Result<> overwrite_records(int fd, uint32_t sequence, const std::vector<ByteRange>& damaged);
  void count_damaged_index(const Segment& segment, uint64_t bytes);

  // packed_store_load.cc
  // TruncatedRecord: a record that points past the end of .data, until a later record or tombstone
  // replaces it.
  struct TruncatedRecord {
    Entry place;
    std::string key;
  };
  using TruncatedRecords = boost::unordered_flat_map<FileId, TruncatedRecord, IdHash>;
  Result<> load_segment(uint32_t sequence, const DirectoryItem& data, bool clean,
                        TruncatedRecords& truncated);
  Result<> repair_on_disk(const std::string& index_name, uint32_t sequence,
                          const std::vector<ByteRange>& damaged);
  void load_record(const SegmentRecord& record, Segment& segment, uint64_t data_file_bytes,
                   TruncatedRecords& truncated);
  void note_lost(const TruncatedRecords& truncated);
  void set_length(const std::string& name, uint64_t from, uint64_t to);
  void discard_dead_segments();
  void discard_on_disk(uint32_t sequence, const std::string& why);

  const std::shared_ptr<CacheDirectory> directory_;
  const uint64_t segment_bytes_;
  SegmentReadahead readahead_;
  mutable std::array<Shard, 64> shards_;

  mutable AdaptiveMutex mutex_;              // before a write buffer's
  std::map<uint32_t, SegmentPtr> segments_;  // oldest first
  std::set<uint32_t> stranded_;              // on disk, but not in segments_
  // By pool: the last segment evicted as the oldest.
  boost::unordered_flat_map<uint64_t, uint32_t> evicted_up_to_;
  // Open segments by pool, and those being created.
  boost::unordered_flat_map<uint64_t, SegmentPtr> open_;
  boost::unordered_flat_map<uint64_t, std::shared_ptr<SharedPromise<bool>>> creating_;
  uint32_t next_sequence_ = 1;
  uint64_t pieces_ = 0;                         // of all write buffers
  std::shared_ptr<SharedPromise<bool>> freed_;  // completed when pieces are released
  std::atomic<bool> write_timer_runs_ = false;
  const std::shared_ptr<Background> tombstone_tasks_ =
      std::make_shared<Background>();  // tombstones
};

}  // namespace leat
