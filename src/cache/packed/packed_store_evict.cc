// SPDX-License-Identifier: Apache-2.0
// PackedStore: eviction. Segments go first in, first out; objects read since they were written move
// to the newest one.
#include <fmt/format.h>

#include "cache/block_crc.h"
#include "cache/packed/packed_store.h"

namespace leat {
namespace {

// At most two thirds of a segment's payload move on, so each eviction frees at least a third.
constexpr uint64_t kMovedThirds = 2;
constexpr size_t kIndexBytesMax = size_t{1} << 30;

}  // namespace

std::optional<int64_t> PackedStore::oldest_birth(const Pool& pool) const {
  std::lock_guard lock(mutex_);
  for (const auto& [sequence, segment] : segments_) {
    if (segment->pool.get() != &pool || segment->removing || !segment->filling.empty()) continue;
    if (segment->sealed) return segment->birth_ns;
  }
  return std::nullopt;
}

// Returns the segment to evict; its removal has begun.
PackedStore::SegmentPtr PackedStore::take_oldest(const Pool& pool, EvictionTarget which) {
  std::lock_guard lock(mutex_);
  for (const auto& [sequence, segment] : segments_) {
    if (segment->pool.get() != &pool || segment->removing || !segment->filling.empty()) continue;
    if (segment->data_bytes == 0) continue;
    if (which == EvictionTarget::kOpen ? !is_open(segment) : !segment->sealed) continue;
    const bool may_stay = covers_existing(*segment) || !pool.stale(segment->last_pass);
    if (which == EvictionTarget::kStale && may_stay) continue;
    segment->removing = true;
    if (which != EvictionTarget::kStale) {
      uint32_t& newest = evicted_up_to_[static_cast<uint64_t>(pool.id)];
      newest = std::max(newest, sequence);
    }
    SegmentPtr taken = segment;
    seal(taken);
    return taken;
  }
  return nullptr;
}

Task<uint64_t> PackedStore::evict_one(PoolPtr pool, bool stale) {
  SegmentPtr segment = take_oldest(*pool, stale ? EvictionTarget::kStale : EvictionTarget::kOldest);
  if (segment == nullptr) co_return 0;
  // Moved objects would be young again, so pools with a TTL move none.
  const bool ages = pool->policy().ttl.count() > 0;
  const uint64_t freed = co_await evict(segment, !stale && !ages && !pool->meter.cyclic());
  directory_->count_evicted(freed);
  co_return freed;
}

Task<uint64_t> PackedStore::evict_open(PoolPtr pool) {
  SegmentPtr segment = take_oldest(*pool, EvictionTarget::kOpen);
  if (segment == nullptr) co_return 0;
  const uint64_t freed = co_await evict(segment, false);
  directory_->count_evicted(freed);
  co_return freed;
}

Task<uint64_t> PackedStore::evict(SegmentPtr segment, bool keep_read) {
  uint64_t bytes = segment->charge.bytes(), moved = 0;
  if (keep_read) {
    discard_unwritten(segment);
    moved = co_await move_read_objects(segment);
  }
  remove_entries_from(*segment, 0);
  if (stranded_before(segment->sequence)) co_await rewrite_tombstones(segment);
  co_await remove(segment);
  co_return bytes > moved ? bytes - moved : 0;
}

// No task writes these bytes any more, and moved objects may need the memory.
void PackedStore::discard_unwritten(const SegmentPtr& segment) {
  const uint64_t written = segment->write_buffer.written();
  bool all_written;
  {
    std::lock_guard lock(mutex_);
    all_written = written >= segment->data_bytes;
  }
  if (!all_written) remove_entries_from(*segment, static_cast<uint32_t>(written / kPageBytes));
  release_pieces(segment->write_buffer.discard());
}

Task<uint64_t> PackedStore::expire(PoolPtr pool, int64_t before_ns, int64_t sealed_before_ns) {
  std::vector<SegmentPtr> expired;
  SegmentPtr old;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [sequence, segment] : segments_) {
      bool idle = segment->pool == pool && !segment->removing && segment->filling.empty();
      if (!idle) continue;
      const bool too_old = segment->newest_ns < before_ns && segment->data_bytes > 0;
      if (too_old && !covers_existing(*segment)) {
        segment->removing = true;
        expired.push_back(segment);
      } else if (is_open(segment) && segment->birth_ns < sealed_before_ns) {
        old = segment;
      }
    }
    for (const SegmentPtr& segment : expired) seal(segment);
    if (old != nullptr) seal(old);
  }
  if (old != nullptr) queue_sync(old);
  uint64_t bytes = 0;
  for (const SegmentPtr& segment : expired) bytes += co_await evict(segment, false);
  co_return bytes;
}

Task<std::vector<PackedStore::LiveRecord>> PackedStore::worth_moving(SegmentPtr segment) {
  CacheDirectory* directory = directory_.get();
  std::vector<LiveRecord> moving;
  Result<Buffer> index = co_await directory->blocking([directory, &segment] {
    return directory->disk->read_file(directory->path(segment->side_name()), kIndexBytesMax);
  });
  if (!index) co_return moving;  // nothing moves; the objects will be fetched again
  uint64_t budget = segment->data_bytes / 3 * kMovedThirds;
  SegmentIndex records(index->span());
  while (auto record = records.next()) {
    if (record->kind != SegmentRecord::Kind::kObject) continue;
    std::optional<Lookup> found = find(record->ref.id);
    if (!found) continue;
    const Entry& entry = found->entry;
    bool current = entry.segment == segment->sequence && entry.page == record->offset / kPageBytes;
    if (!current || !entry.read) continue;
    uint64_t bytes = align_up(entry.size, kPageBytes);
    if (bytes > budget) break;
    budget -= bytes;
    record->ref.pool = segment->pool->id;
    moving.push_back({*std::move(record), entry});
  }
  co_return moving;
}

Task<uint64_t> PackedStore::move_read_objects(SegmentPtr segment) {
  std::vector<LiveRecord> moving = co_await worth_moving(segment);
  uint64_t moved = 0;
  for (LiveRecord& object : moving) {
    auto ref = std::make_shared<const FileRef>(std::move(object.record.ref));
    ByteRange whole{0, object.from.size};
    Result<Bytes> bytes = co_await read_object(Context::background(), ref, whole, false);
    if (!bytes) continue;
    Result<> stored = co_await store(Context::background(), ref, *bytes, object.from);
    if (!stored) break;  // no room: the other objects are evicted
    moved += align_up(object.from.size, kPageBytes);
  }
  co_return moved;
}

uint64_t PackedStore::remove_entries_from(Segment& segment, uint32_t page) {
  int64_t objects = 0, bytes = 0;
  for (Shard& part : shards_) {
    std::lock_guard lock(part.mutex);
    part.entries.erase_if([&](const Entry& entry) {
      if (entry.segment != segment.sequence || entry.page < page) return false;
      ++objects;
      bytes += static_cast<int64_t>(align_up(entry.size, kPageBytes));
      return true;
    });
  }
  segment.live_objects -= objects;
  segment.live_bytes -= bytes;
  return static_cast<uint64_t>(objects);
}

}  // namespace leat
