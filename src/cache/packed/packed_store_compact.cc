// SPDX-License-Identifier: Apache-2.0
// Compaction: moves the live objects of a mostly dead segment to the open one, so that its space
// becomes free without an eviction.
//
// A copy counts only when it is durable. Until then the index points to the old location, and the
// copy is noted beside the index, so a drop removes both. A disk that fails or hangs at any step
// loses nothing: the segment stays, and moved objects count at their new location. The segment is
// removed when nothing in it counts and another segment covers what it covers.
//
// A move is no use of an object. Its record keeps the first segment that had it. When FIFO eviction
// has passed that segment, the object is dropped, or its age starts again if it was read.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "cache/block_crc.h"
#include "cache/packed/packed_store.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Below a half, each moved byte frees more than one.
constexpr int64_t kLiveShareMax = 2;
// Bytes and objects between two syncs; unsynced copies are noted twice.
constexpr uint64_t kBatchBytes = 16 * kMiB;
constexpr size_t kBatchObjects = 4096;
// A small part of a disk's bandwidth; a segment of 256 MiB takes at most four seconds.
constexpr uint64_t kBytesPerSecond = 32 * kMiB;
// Writers have priority: half of the pieces of all write buffers are reserved for them.
constexpr uint64_t kPiecesForWriters = 8;
constexpr auto kPollInterval = std::chrono::milliseconds(20);
// Pause after a sync that failed for lack of resources.
constexpr auto kRetryInterval = std::chrono::milliseconds(500);
constexpr size_t kIndexBytesMax = size_t{1} << 30;
constexpr uint64_t kRecordBytes = 512;  // estimate

Counter compacted_total("leat_cache_compacted_bytes_total",
                        "Bytes of segments removed after compaction", "", Stability::kExperimental);
Counter moved_total("leat_cache_compaction_moved_bytes_total",
                    "Bytes of live objects moved out of segments by compaction", "",
                    Stability::kExperimental);

}  // namespace

Task<> PackedStore::run_compaction(std::shared_ptr<PackedStore> self, Clock::duration interval) {
  const Context until = Context::background().with_cancel(self->directory_->stopping.get_token());
  while (co_await sleep_for(until, interval)) {
    SegmentPtr segment = self->take_sparse_segment();
    if (segment != nullptr) co_await self->compact(segment);
  }
}

// Returns the segment that frees most for the bytes moved, marked as compacting; null if none is
// worth it. Excludes pools with a TTL: their objects expire soon, and would be young again in a new
// segment.
PackedStore::SegmentPtr PackedStore::take_sparse_segment() {
  struct Candidate {
    SegmentPtr segment;
    double live_share;
  };
  std::vector<Candidate> candidates;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [sequence, segment] : segments_) {
      const bool idle = segment->whole_pages && segment->filling.empty() && !segment->removing &&
                        !segment->sync_failed && !segment->compacting && !segment->not_compactable;
      const auto bytes = static_cast<int64_t>(segment->data_bytes);
      const int64_t live = segment->live_bytes;
      if (!idle || live * kLiveShareMax >= bytes) continue;
      candidates.push_back({segment, static_cast<double>(live) / static_cast<double>(bytes)});
    }
  }
  std::ranges::sort(candidates, {}, &Candidate::live_share);
  for (const auto& [segment, share] : candidates) {
    const auto live = static_cast<uint64_t>(std::max<int64_t>(segment->live_bytes, 0));
    const auto objects = static_cast<uint64_t>(std::max<int64_t>(segment->live_objects, 0));
    if (segment->pool->policy().ttl.count() > 0) continue;
    if (!has_room(*segment->pool, live + objects * kRecordBytes)) continue;
    std::lock_guard lock(mutex_);
    if (segment->removing) continue;
    segment->compacting = true;
    return segment;
  }
  return nullptr;
}

// Returns true if the bytes and a new segment's two pages fit without an eviction.
bool PackedStore::has_room(const Pool& pool, uint64_t bytes) const {
  return pool.capacity->headroom() >= bytes + 2 * kPageBytes;
}

// Returns true also if the segment is being evicted, or a new policy gives the pool a TTL.
bool PackedStore::must_stop(const Segment& segment) const {
  return directory_->closing || segment.removing || segment.pool->policy().ttl.count() > 0;
}

uint32_t PackedStore::evicted_up_to(const Pool& pool) const {
  std::lock_guard lock(mutex_);
  auto found = evicted_up_to_.find(static_cast<uint64_t>(pool.id));
  return found == evicted_up_to_.end() ? 0 : found->second;
}

Task<> PackedStore::compact(SegmentPtr segment) {
  Compaction work{.segment = segment};
  bool moved_all = false;
  Result<Buffer> index = co_await whole_index(segment);
  if (index) {
    work.index = *std::move(index);
    moved_all = co_await move_all(work);
  } else {
    log::warning("cache {}: {} is not compacted: {}", directory_->options.directory,
                 Segment::name(segment->sequence, ""), index.error().to_string());
    std::lock_guard lock(mutex_);
    segment->not_compactable = lost_by_read(index.error());
  }
  co_await end_compaction(segment, moved_all);
}

// Returns the index as written to the file, if every record is whole. Without one record, it is
// unknown what would be lost with the segment.
Task<Result<Buffer>> PackedStore::whole_index(SegmentPtr segment) {
  CacheDirectory* directory = directory_.get();
  co_return co_await directory->blocking([directory, &segment]() -> Result<Buffer> {
    const uint64_t bytes = segment->index_bytes;
    LEAT_TRY(Buffer index,
             directory->disk->read_file(directory->path(segment->side_name()), kIndexBytesMax));
    if (index.size() < bytes) return error(StatusCode::kCorrupt, "its index is cut short");
    for (size_t at = SegmentHeader::kBytes; at < bytes;) {
      auto record = SegmentRecord::decode(index.span().first(bytes).subspan(at), &at);
      if (!record) return error(StatusCode::kCorrupt, "its index is damaged");
      const bool is_tombstone = record->kind == SegmentRecord::Kind::kTombstone;
      // Tombstones of builds until 2026-11-22 cover all earlier segments; a moved one would cover
      // too much.
      if (is_tombstone && record->ref.size == 0) {
        return error(StatusCode::kCorrupt, "it has tombstones of an earlier format");
      }
    }
    return index;
  });
}

// Returns true if everything that counts in the segment now counts elsewhere, durably.
Task<bool> PackedStore::move_all(Compaction& work) {
  const Context until = Context::background().with_cancel(directory_->stopping.get_token());
  const uint64_t bytes = work.segment->index_bytes;
  bool moved = true;
  for (size_t at = SegmentHeader::kBytes; at < bytes && moved;) {
    auto record = SegmentRecord::decode(work.index.span().first(bytes).subspan(at), &at);
    LEAT_CHECK(record.has_value());
    moved = co_await move_record(work, *std::move(record));
    // A full segment keeps its last piece of memory until its copies have their records.
    const bool another =
        !work.copies.empty() && work.copies.front().into != work.copies.back().into;
    const bool full = another || work.batch_bytes >= kBatchBytes ||
                      work.copies.size() + work.tombstones_in.size() >= kBatchObjects;
    if (!moved || !full) continue;
    const auto pause = std::chrono::duration<double>(static_cast<double>(work.batch_bytes) /
                                                     static_cast<double>(kBytesPerSecond));
    moved = co_await finish_copies(work);
    Result<> paused = co_await sleep_for(until, std::chrono::duration_cast<Clock::duration>(pause));
    moved = moved && paused;
  }
  const bool settled = co_await finish_copies(work);
  co_return moved&& settled;
}

// Returns false if compaction of this segment stops for now.
Task<bool> PackedStore::move_record(Compaction& work, SegmentRecord record) {
  if (must_stop(*work.segment)) co_return false;
  if (record.kind == SegmentRecord::Kind::kTombstone) {
    co_return co_await move_tombstone(work, std::move(record));
  }
  std::optional<Lookup> found = find(record.ref.id);
  const bool counts = found && found->entry.segment == work.segment->sequence &&
                      found->entry.page == record.offset / kPageBytes;
  if (!counts) co_return true;
  co_return co_await move_object(work, std::move(record), found->entry);
}

// Returns true while the copy that the tombstone names, or an earlier one, may be on disk.
bool PackedStore::is_needed(const SegmentRecord& tombstone, const Segment& in) const {
  const uint64_t about = tombstone.ref.size;
  std::lock_guard lock(mutex_);
  if (!stranded_.empty() && *stranded_.begin() <= about) return true;
  auto first = segments_.begin();
  if (first != segments_.end() && first->first == in.sequence) ++first;
  return first != segments_.end() && first->first <= about;
}

Task<bool> PackedStore::move_tombstone(Compaction& work, SegmentRecord tombstone) {
  if (!is_needed(tombstone, *work.segment)) co_return true;
  if (!has_room(*work.segment->pool, kRecordBytes)) co_return false;
  Result<SegmentPtr> into =
      co_await append_tombstone(tombstone.encode(), work.segment->pool, SlotUser::kCompaction);
  if (!into) co_return false;
  if (work.tombstones_in.empty() || work.tombstones_in.back() != *into)
    work.tombstones_in.push_back(*into);
  co_return true;
}

Task<bool> PackedStore::move_object(Compaction& work, SegmentRecord record, Entry from) {
  const PoolPtr pool = work.segment->pool;
  const uint32_t origin = record.origin != 0 ? record.origin : work.segment->sequence;
  const bool past_eviction = evicted_up_to(*pool) > origin && !pool->policy().pinned;
  if (past_eviction && !from.read) {
    if (remove_entry(record.ref.id, from))
      directory_->count_evicted(align_up(from.size, kPageBytes));
    co_return true;
  }
  record.ref.pool = pool->id;
  auto ref = std::make_shared<const FileRef>(std::move(record.ref));
  Result<Bytes> data =
      co_await read_object(Context::background(), ref, ByteRange{0, from.size}, false);
  if (!data) {  // wrong bytes are dropped by now; others could not be read just now
    const std::optional<Lookup> still = find(ref->id);
    co_return !still || !still->entry.same_location(from);
  }
  // The object may have been verified long ago: do not give changed bytes a new matching checksum.
  std::vector<uint32_t> crcs = block_crcs(*data);
  if (crc_of_crcs(crcs) != from.crc) {
    Error dropped = drop_corrupt(ref->id, from, ref->key, "its checksum differs");
    static_cast<void>(dropped);
    co_return true;
  }
  const uint64_t pages = align_up(from.size, kPageBytes);
  const uint64_t charged =
      pages + SegmentRecord::encoded_bytes(ref->key, ref->version.value, crcs.size());
  if (!co_await write_buffers_have_room()) co_return false;
  if (!has_room(*pool, charged) || !pool->capacity->reserve(charged)) co_return false;
  const Incoming object{*ref, *data, pool, std::move(crcs), charged, from};
  Result<Slot> slot = co_await take_slot(Context::background(), pool, pages, SlotUser::kCompaction);
  if (!slot) {
    pool->capacity->release(charged);
    co_return false;
  }
  place_copy(work, object, *slot,
             {.id = ref->id, .place = from, .into = {}, .restart_age = past_eviction},
             past_eviction ? 0 : origin);
  co_return true;
}

// Waits until writers leave enough pieces free.
Task<bool> PackedStore::write_buffers_have_room() {
  const Context until = Context::background().with_cancel(directory_->stopping.get_token());
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (pieces_ < kPiecesForWriters + open_.size()) co_return true;
    }
    Result<> slept = co_await sleep_for(until, kPollInterval);
    if (!slept) co_return false;
  }
}

// The record is written later, and only if the copy is still noted then. A drop comes before both
// or finds the copy.
void PackedStore::place_copy(Compaction& work, const Incoming& object, const Slot& slot, Copy copy,
                             uint32_t origin) {
  const Entry from = copy.place;
  Segment& into = *slot.segment;
  into.charge.adopt(object.charged);
  SegmentWriteBuffer::fill(slot.reservation, object.data);
  copy.into = slot.segment;
  copy.place.segment = into.sequence;
  copy.place.page = static_cast<uint32_t>(slot.offset / kPageBytes);
  copy.place.verified = false;
  copy.record = SegmentRecord::encode(SegmentRecord::Kind::kObject, object.ref, slot.offset,
                                      object.crcs, origin);
  bool noted;
  {
    Shard& part = shard(copy.id);
    std::lock_guard lock(part.mutex);
    const Entry* found = part.entries.find(copy.id);
    noted = into.is_sound() && found != nullptr && found->same_location(from);
    if (noted) {
      count_live(into, copy.place);
      into.covers_earlier = true;
      part.copies[copy.id] = copy.place;
      ++into.records_due;
    }
  }
  // As old as the source segment, unless other objects in the target are younger.
  const Segment& source = *work.segment;
  into.newest_ns = std::max(into.newest_ns.load(), source.newest_ns.load());
  into.last_pass = std::max(into.last_pass.load(), source.last_pass.load());
  release_slot(slot);
  if (!noted) return;
  work.batch_bytes += align_up(from.size, kPageBytes);
  moved_total.add(align_up(from.size, kPageBytes));
  work.copies.push_back(std::move(copy));
}

std::optional<PackedStore::Entry> PackedStore::take_copy(Shard& part, const FileId& id) {
  auto found = part.copies.find(id);
  if (found == part.copies.end()) return std::nullopt;
  const Entry copy = found->second;
  part.copies.erase(found);
  return copy;
}

// Returns true if all copies count, or never will, and the tombstones are durable. While this is
// unknown it retries until the directory stops; the copies stay noted.
Task<bool> PackedStore::finish_copies(Compaction& work) {
  const Context until = Context::background().with_cancel(directory_->stopping.get_token());
  const size_t copies = work.copies.size();
  size_t counts = 0;
  bool tombstones = true;
  for (;;) {
    std::vector<SegmentPtr> into = work.tombstones_in;
    for (const Copy& copy : work.copies) into.push_back(copy.into);
    std::ranges::sort(into);
    auto twice = std::ranges::unique(into);
    into.erase(twice.begin(), twice.end());
    bool all_settled = co_await sync_segments(into);
    if (write_copy_records(work)) {
      const bool recorded = co_await sync_segments(into);
      all_settled = all_settled && recorded;
    }
    for (const SegmentPtr& segment : work.tombstones_in) {
      tombstones = tombstones && segment->is_sound();
    }
    std::erase_if(work.copies, [&](Copy& copy) {
      copy.durable = copy.durable || (all_settled && copy.recorded() && !copy.into->write_failed);
      const bool resolved = resolve(copy);
      if (!resolved) return false;
      if (!copy.recorded()) --copy.into->records_due;
      if (!copy.into->sync_failed && !copy.into->write_failed) ++counts;
      return true;
    });
    if (work.copies.empty() && (all_settled || !tombstones)) break;
    Result<> slept = co_await sleep_for(until, kRetryInterval);
    if (!slept) co_return false;
  }
  work.tombstones_in.clear();
  work.batch_bytes = 0;
  co_return tombstones&& counts == copies;
}

// Syncs names too: the source of a move may be unlinked at once.
Task<bool> PackedStore::sync_segments(std::vector<SegmentPtr> segments) {
  bool all_settled = true;
  for (const SegmentPtr& segment : segments) {
    Result<> settled = co_await sync_to_end(segment);
    all_settled = all_settled && settled;
  }
  bool all_named;
  {
    std::lock_guard lock(mutex_);
    all_named =
        std::ranges::all_of(segments, [](const auto& segment) { return segment->names_durable; });
  }
  if (all_named) co_return all_settled;
  Result<> named = co_await sync_names();
  co_return all_settled&& named;
}

// Writes the records of copies with durable payload; returns true if there are any. A record
// outranks that of the old copy, so it must not survive a power cut without its payload.
bool PackedStore::write_copy_records(Compaction& work) {
  bool any = false;
  for (Copy& copy : work.copies) {
    if (copy.recorded()) continue;
    Segment& into = *copy.into;
    const uint64_t end = copy.place.page * kPageBytes + align_up(copy.place.size, kPageBytes);
    {
      Shard& part = shard(copy.id);
      std::lock_guard lock(part.mutex);
      const Entry* found = part.entries.find(copy.id);
      const bool wanted = found != nullptr && copy.place.is_later_than(*found);
      const bool noted = part.copies.contains(copy.id);
      if (!into.is_sound() || !wanted || !noted || end > into.synced_bytes) continue;
      into.write_buffer.add_record(end, std::exchange(copy.record, {}));
    }
    any = true;
    --into.records_due;
  }
  return any;
}

// Returns false while it is unknown whether the copy is durable.
bool PackedStore::resolve(const Copy& copy) {
  const Segment& into = *copy.into;
  std::optional<Entry> left;
  bool dead = false;
  {
    Shard& part = shard(copy.id);
    std::lock_guard lock(part.mutex);
    if (!part.copies.contains(copy.id)) return true;  // dropped, and both copies are handled
    // Under this lock: a thread that marks the segment removes its entries from the shards
    // afterwards.
    const bool lost = into.sync_failed || into.removing || (into.write_failed && !copy.durable);
    const Entry* found = part.entries.find(copy.id);
    const bool wanted = found != nullptr && copy.place.is_later_than(*found);
    if (wanted && !lost && !copy.durable) return false;
    take_copy(part, copy.id);
    dead = found == nullptr && !lost && copy.recorded();
    if (wanted && !lost) {
      left = *found;
      Entry now = copy.place;
      now.read = found->read && !copy.restart_age;
      part.entries.put(copy.id, now);
    }
  }
  if (dead) queue_tombstone(copy.id, copy.place);  // evicted, or found wrong, meanwhile
  uncount_live(left.value_or(copy.place));
  return true;
}

// Waits for pending tombstones: earlier copies of the segment's objects may need them.
Task<> PackedStore::end_compaction(SegmentPtr segment, bool moved_all) {
  while (moved_all && *segment->tombstones_due > 0) {
    Result<> slept = co_await sleep_for(Context::background(), kPollInterval);
    static_cast<void>(slept);
  }
  bool goes;
  {
    std::lock_guard lock(mutex_);
    segment->compacting = false;
    goes = moved_all && segment->live_objects == 0 && !segment->removing;
    if (goes) segment->removing = true;
  }
  if (!goes) {
    remove_if_dead(segment);
    co_return;
  }
  const uint64_t bytes = segment->charge.bytes();
  log::debug("cache {}: compacted {}, {} bytes", directory_->options.directory,
             Segment::name(segment->sequence, ""), bytes);
  compacted_total.add(bytes);
  co_await remove(segment);
}

// Rewrites the tombstones of an evicted segment that cover segments which could not be loaded. Best
// effort.
Task<> PackedStore::rewrite_tombstones(SegmentPtr segment) {
  if (!segment->covers_earlier) co_return;
  Result<Semaphore::Permit> permit =
      co_await segment->write_semaphore.acquire(Context::background(), 1, "a segment's writer");
  if (!permit) co_return;
  Result<Buffer> index = co_await whole_index(segment);
  if (!index) co_return;
  for (size_t at = SegmentHeader::kBytes; at < segment->index_bytes;) {
    auto record = SegmentRecord::decode(index->span().subspan(at), &at);
    if (!record) co_return;
    if (record->kind != SegmentRecord::Kind::kTombstone || !is_needed(*record, *segment)) continue;
    Result<SegmentPtr> into =
        co_await append_tombstone(record->encode(), segment->pool, SlotUser::kCompaction);
    if (!into) co_return;
  }
}

}  // namespace leat
