// SPDX-License-Identifier: Apache-2.0
// PackedStore: drops. A segment never changes, so a later one must record its dead objects: by a
// tombstone, or by a later copy of the object. That later segment stays as long as it is needed.
#include <fmt/format.h>

#include "cache/packed/packed_store.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Attempts to find room for a tombstone.
constexpr int kTombstoneTries = 100, kTriesPerEviction = 10;
constexpr auto kTombstoneRetryInterval = std::chrono::milliseconds(10);

}  // namespace

uint64_t PackedStore::drop(const FileId& id) {
  std::optional<Lookup> found = find(id);
  std::optional<Entry> copy;
  for (; found; found = find(id)) {
    // Counted first: a segment with no live object and no pending tombstone is removed.
    const SegmentPtr from = segment(found->entry.segment);
    if (from != nullptr) ++*from->tombstones_due;
    const bool forgotten = remove_entry(id, found->entry, &copy);
    if (forgotten) queue_tombstone(id, found->entry);
    if (from != nullptr) --*from->tombstones_due;
    if (forgotten) break;  // otherwise the object is being moved
  }
  if (!found) return 0;
  if (copy) {  // its record is on disk, or about to be
    queue_tombstone(id, *copy);
    uncount_live(*copy);
  }
  return found->entry.size;
}

void PackedStore::queue_tombstone(const FileId& id, const Entry& dropped) {
  const SegmentPtr from = segment(dropped.segment);
  if (from == nullptr) return;
  ++*from->tombstones_due;
  tombstone_tasks_->spawn(directory_->executor,
                          write_tombstone_in_background(shared_from_this(), id, dropped, from->pool,
                                                        from->tombstones_due));
}

std::string PackedStore::encode_tombstone(const FileId& id, const Entry& dropped) {
  SegmentRecord tombstone;
  tombstone.kind = SegmentRecord::Kind::kTombstone;
  tombstone.ref.id = id;
  tombstone.ref.size = dropped.segment;
  tombstone.offset = dropped.page * kPageBytes;
  return tombstone.encode();
}

// Without this tombstone the object would return after a restart: correct bytes, but it was
// dropped. It names the location, since the object may be cached again before the tombstone is
// written.
Task<> PackedStore::write_tombstone_in_background(std::shared_ptr<PackedStore> self, FileId id,
                                                  Entry dropped, PoolPtr pool,
                                                  std::shared_ptr<std::atomic<int64_t>> due) {
  co_await self->write_tombstone(encode_tombstone(id, dropped), id, dropped.segment, pool);
  --*due;
}

Task<> PackedStore::write_tombstone(std::string record, FileId id, uint32_t named_segment,
                                    PoolPtr pool) {
  for (int tries = 0; tries < kTombstoneTries; ++tries) {
    // A segment that is removed with its last object removes that object's record. A segment that
    // stays for what it covers does not, and one that could not be loaded may have an earlier
    // record.
    if (is_being_removed(named_segment) && !stranded_before(named_segment)) co_return;
    Result<SegmentPtr> into = co_await append_tombstone(record, pool, SlotUser::kWriter);
    if (into || into.error().code() != StatusCode::kNoSpace) co_return;
    // Eviction makes room, but not in a cyclic pool; there the oldest segment is evicted. A
    // drop must be executed; cached objects may be evicted.
    pool->needs_room = true;
    directory_->on_pressure();
    if (tries % kTriesPerEviction == kTriesPerEviction - 1 && !pool->policy().pinned) {
      const uint64_t freed = co_await evict_one(pool, false);
      if (freed == 0) co_await evict_open(pool);
    }
    Result<> slept = co_await sleep_for(Context::background(), kTombstoneRetryInterval);
    static_cast<void>(slept);
  }
  log::warning("cache {}: no room for the tombstone of {}; it may be cached again after a restart",
               directory_->options.directory, id.to_hex());
}

bool PackedStore::is_being_removed(uint32_t sequence) const {
  const SegmentPtr of = segment(sequence);
  return of == nullptr || of->removing;
}

// Adds the tombstone to the open segment, which is returned.
Task<Result<PackedStore::SegmentPtr>> PackedStore::append_tombstone(std::string record,
                                                                    PoolPtr pool, SlotUser user) {
  LEAT_CO_TRY(Slot slot, co_await take_slot(Context::background(), pool, 0, user));
  const bool room = slot.segment->charge.grow(record.size());
  if (room) {
    slot.segment->covers_earlier = true;
    slot.segment->write_buffer.add_record(slot.offset, record);
  }
  release_slot(slot);
  if (!room) co_return error(StatusCode::kNoSpace, "no room for a tombstone");
  co_return slot.segment;
}

bool PackedStore::stranded_before(uint32_t sequence) const {
  std::lock_guard lock(mutex_);
  return !stranded_.empty() && *stranded_.begin() < sequence;
}

// A cover is needed while earlier segments exist, including those that could not be loaded.
bool PackedStore::covers_existing(const Segment& segment) const {
  if (!segment.covers_earlier) return false;
  const bool stranded = !stranded_.empty() && *stranded_.begin() < segment.sequence;
  return stranded || segments_.begin()->first < segment.sequence;
}

// Waits for the removals in progress of segments before `end`.
Task<> PackedStore::wait_for_removals(uint32_t end) {
  std::vector<SegmentPtr> going;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [sequence, segment] : segments_) {
      if (sequence < end && segment->removing) going.push_back(segment);
    }
  }
  for (const SegmentPtr& segment : going) {
    auto gone = co_await segment->removed->wait(Context::background(), "removal of a segment");
    static_cast<void>(gone);
  }
}

// Makes the names of present and removed segments durable.
Task<Result<>> PackedStore::sync_names() {
  std::vector<SegmentPtr> there;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [sequence, segment] : segments_) there.push_back(segment);
  }
  CacheDirectory* directory = directory_.get();
  Result<> synced = co_await directory->blocking(
      [directory] { return directory->disk->sync_directory(directory->path("segments")); });
  if (synced) {
    std::lock_guard lock(mutex_);
    for (const SegmentPtr& segment : there) segment->names_durable = true;
  }
  co_return synced;
}

}  // namespace leat
