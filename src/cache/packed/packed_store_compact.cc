// SPDX-License-Identifier: Apache-2.0
// Compaction: what is left of a segment that is mostly dead moves to the one that is being filled,
// so that its space comes back without an eviction.
//
// A copy counts only when it is on disk for good; until then the index points to where the object
// lies, and the copy is noted beside it, so that whoever drops the object drops both. So nothing is
// lost by a disk that fails or hangs, at whatever step: the segment stays, and what has moved
// counts where it is. It goes when nothing in it counts any more and what it covers is covered
// elsewhere.
//
// Moving is no use of an object. Its record keeps the segment where it lay first; when first in,
// first out has come beyond that its turn is over: it goes, or begins anew where it was read.
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

// Below a half each byte that is moved frees more than one.
constexpr int64_t kLiveShareMax = 2;
// Between two syncs; what is not synced yet is noted twice.
constexpr uint64_t kBatchBytes = 16 * kMiB;
constexpr size_t kBatchObjects = 4096;
// A small part of what a disk does; a segment of 256 MiB takes four seconds.
constexpr uint64_t kBytesPerSecond = 32 * kMiB;
// Those who write go first: half of the pieces of all tails are theirs.
constexpr uint64_t kPiecesForOthers = 8;
constexpr auto kPatience = std::chrono::milliseconds(20);
// After a sync that failed for want of something.
constexpr auto kTryAgain = std::chrono::milliseconds(500);
constexpr size_t kIndexBytesMax = size_t{1} << 30;
constexpr uint64_t kRecordBytes = 512;  // about

Counter compacted_total("leat_cache_compacted_bytes_total",
                        "Bytes of segments removed after what was left of them had moved on", "",
                        Stability::kExperimental);
Counter moved_total("leat_cache_compaction_moved_bytes_total",
                    "Bytes of small objects moved on from segments that are mostly dead", "",
                    Stability::kExperimental);

}  // namespace

Task<> PackedStore::keep_compacting(std::shared_ptr<PackedStore> self, Clock::duration rest) {
  const Context until = Context::background().with_cancel(self->directory_->stopping.get_token());
  while (co_await sleep_for(until, rest)) {
    SegmentPtr segment = self->take_strays();
    if (segment != nullptr) co_await self->compact(segment);
  }
}

// The one that frees most for what is moved, marked; null where none is worth it. None of a pool
// whose objects are too old at some time: they go then, and would be young again in a new segment.
PackedStore::SegmentPtr PackedStore::take_strays() {
  struct Candidate {
    SegmentPtr segment;
    double live_share;
  };
  std::vector<Candidate> candidates;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [sequence, segment] : segments_) {
      const bool rests = segment->whole_pages && segment->filling.empty() && !segment->removing &&
                         !segment->failed && !segment->compacting && !segment->refuses_compaction;
      const auto bytes = static_cast<int64_t>(segment->data_bytes);
      const int64_t live = segment->live_bytes;
      if (!rests || live * kLiveShareMax >= bytes) continue;
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

// Without anything going for it, a new segment's two pages included.
bool PackedStore::has_room(const Pool& pool, uint64_t bytes) const {
  return pool.capacity->room() >= bytes + 2 * kPageBytes;
}

// Also where it is being evicted, or a policy has come that says that it will.
bool PackedStore::must_stop(const Segment& segment) const {
  return directory_->closing || segment.removing || segment.pool->policy().ttl.count() > 0;
}

uint32_t PackedStore::turn_of(const Pool& pool) const {
  std::lock_guard lock(mutex_);
  auto found = turns_.find(static_cast<uint64_t>(pool.id));
  return found == turns_.end() ? 0 : found->second;
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
    segment->refuses_compaction = lost_by_read(index.error());
  }
  co_await end_compaction(segment, moved_all);
}

// What of the index is in the file, every record of it whole. Without one of them it is not known
// what would go with the segment.
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
      const bool is_word = record->kind == SegmentRecord::Kind::kDropped;
      // Of builds until 2026-11-22: about all that came before it, which it would not be any more.
      if (is_word && record->ref.size == 0) {
        return error(StatusCode::kCorrupt, "it has words of an earlier format");
      }
    }
    return index;
  });
}

// Whether all that counts in the segment counts elsewhere now, for good.
Task<bool> PackedStore::move_all(Compaction& work) {
  const Context until = Context::background().with_cancel(directory_->stopping.get_token());
  const uint64_t bytes = work.segment->index_bytes;
  bool moved = true;
  for (size_t at = SegmentHeader::kBytes; at < bytes && moved;) {
    auto record = SegmentRecord::decode(work.index.span().first(bytes).subspan(at), &at);
    LEAT_CHECK(record.has_value());
    moved = co_await move_record(work, *std::move(record));
    // A segment that is full keeps its last piece of memory until its copies have their records.
    const bool another =
        !work.copies.empty() && work.copies.front().into != work.copies.back().into;
    const bool full = another || work.batch_bytes >= kBatchBytes ||
                      work.copies.size() + work.words_in.size() >= kBatchObjects;
    if (!moved || !full) continue;
    const auto pause = std::chrono::duration<double>(static_cast<double>(work.batch_bytes) /
                                                     static_cast<double>(kBytesPerSecond));
    moved = co_await settle_copies(work);
    Result<> paused = co_await sleep_for(until, std::chrono::duration_cast<Clock::duration>(pause));
    moved = moved && paused;
  }
  const bool settled = co_await settle_copies(work);
  co_return moved&& settled;
}

// False where it ends here for now.
Task<bool> PackedStore::move_record(Compaction& work, SegmentRecord record) {
  if (must_stop(*work.segment)) co_return false;
  if (record.kind == SegmentRecord::Kind::kDropped) {
    co_return co_await move_word(work, std::move(record));
  }
  std::optional<Found> found = find(record.ref.id);
  const bool counts = found && found->entry.segment == work.segment->sequence &&
                      found->entry.page == record.offset / kPageBytes;
  if (!counts) co_return true;
  co_return co_await move_stray(work, std::move(record), found->entry);
}

// As long as what it is about, or an earlier place of that, may be on disk.
bool PackedStore::is_needed(const SegmentRecord& word, const Segment& in) const {
  const uint64_t about = word.ref.size;
  std::lock_guard lock(mutex_);
  if (!stranded_.empty() && *stranded_.begin() <= about) return true;
  auto first = segments_.begin();
  if (first != segments_.end() && first->first == in.sequence) ++first;
  return first != segments_.end() && first->first <= about;
}

Task<bool> PackedStore::move_word(Compaction& work, SegmentRecord word) {
  if (!is_needed(word, *work.segment)) co_return true;
  if (!has_room(*work.segment->pool, kRecordBytes)) co_return false;
  Result<SegmentPtr> into = co_await add_word(word.encode(), work.segment->pool, For::kCompaction);
  if (!into) co_return false;
  if (work.words_in.empty() || work.words_in.back() != *into) work.words_in.push_back(*into);
  co_return true;
}

Task<bool> PackedStore::move_stray(Compaction& work, SegmentRecord record, Entry from) {
  const PoolPtr pool = work.segment->pool;
  const uint32_t origin = record.origin != 0 ? record.origin : work.segment->sequence;
  const bool turn_is_over = turn_of(*pool) > origin && !pool->policy().pinned;
  if (turn_is_over && !from.read) {
    if (forget(record.ref.id, from)) directory_->evicted(align_up(from.size, kPageBytes));
    co_return true;
  }
  record.ref.pool = pool->id;
  auto ref = std::make_shared<const FileRef>(std::move(record.ref));
  Result<Bytes> data =
      co_await read_object(Context::background(), ref, ByteRange{0, from.size}, false);
  if (!data) {  // what is wrong is forgotten by now; what is still there could not be had just now
    const std::optional<Found> still = find(ref->id);
    co_return !still || !still->entry.same_place(from);
  }
  // It may have been verified long ago: its bytes must not get a checksum that fits them now.
  std::vector<uint32_t> crcs = block_crcs(*data);
  if (crc_of_crcs(crcs) != from.crc) {
    Error dropped = lost(ref->id, from, ref->key, "its checksum differs");
    static_cast<void>(dropped);
    co_return true;
  }
  const uint64_t pages = align_up(from.size, kPageBytes);
  const uint64_t charged =
      pages + SegmentRecord::encoded_bytes(ref->key, ref->version.value, crcs.size());
  if (!co_await tails_have_room()) co_return false;
  if (!has_room(*pool, charged) || !pool->capacity->reserve(charged)) co_return false;
  const Incoming object{*ref, *data, pool, std::move(crcs), charged, from};
  Result<Slot> slot = co_await take_slot(Context::background(), pool, pages, For::kCompaction);
  if (!slot) {
    pool->capacity->give_back(charged);
    co_return false;
  }
  place_copy(work, object, *slot, {.id = ref->id, .place = from, .into = {}, .again = turn_is_over},
             turn_is_over ? 0 : origin);
  co_return true;
}

// Waits until those who write leave enough of them.
Task<bool> PackedStore::tails_have_room() {
  const Context until = Context::background().with_cancel(directory_->stopping.get_token());
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (pieces_ < kPiecesForOthers + open_.size()) co_return true;
    }
    Result<> slept = co_await sleep_for(until, kPatience);
    if (!slept) co_return false;
  }
}

// Its record comes later, and only if the copy is noted then: whoever drops the object either came
// before both or finds the copy.
void PackedStore::place_copy(Compaction& work, const Incoming& object, const Slot& slot, Copy copy,
                             uint32_t origin) {
  const Entry from = copy.place;
  Segment& into = *slot.segment;
  into.charge.adopt(object.charged);
  SegmentTail::fill(slot.place, object.data);
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
    noted = into.is_sound() && found != nullptr && found->same_place(from);
    if (noted) {
      count_live(into, copy.place);
      into.covers_earlier = true;
      part.copies[copy.id] = copy.place;
      ++into.records_due;
    }
  }
  // As old as where they come from, unless others in it are younger.
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

// Whether all of them count, or never will, and the words are on disk for good. Where it is not
// known yet it is tried again, until the directory stops: copies stay noted then.
Task<bool> PackedStore::settle_copies(Compaction& work) {
  const Context until = Context::background().with_cancel(directory_->stopping.get_token());
  const size_t copies = work.copies.size();
  size_t counts = 0;
  bool words = true;
  for (;;) {
    std::vector<SegmentPtr> into = work.words_in;
    for (const Copy& copy : work.copies) into.push_back(copy.into);
    std::ranges::sort(into);
    auto twice = std::ranges::unique(into);
    into.erase(twice.begin(), twice.end());
    bool all_settled = co_await settle_each(into);
    if (record_copies(work)) {
      const bool recorded = co_await settle_each(into);
      all_settled = all_settled && recorded;
    }
    for (const SegmentPtr& segment : work.words_in) {
      words = words && segment->is_sound();
    }
    std::erase_if(work.copies, [&](Copy& copy) {
      copy.durable = copy.durable || (all_settled && copy.recorded() && !copy.into->cut_off);
      const bool resolved = resolve(copy);
      if (!resolved) return false;
      if (!copy.recorded()) --copy.into->records_due;
      if (!copy.into->failed && !copy.into->cut_off) ++counts;
      return true;
    });
    if (work.copies.empty() && (all_settled || !words)) break;
    Result<> slept = co_await sleep_for(until, kTryAgain);
    if (!slept) co_return false;
  }
  work.words_in.clear();
  work.batch_bytes = 0;
  co_return words&& counts == copies;
}

// Names too: where what was moved came from may go at once.
Task<bool> PackedStore::settle_each(std::vector<SegmentPtr> segments) {
  bool all_settled = true;
  for (const SegmentPtr& segment : segments) {
    Result<> settled = co_await settle_all(segment);
    all_settled = all_settled && settled;
  }
  bool all_named;
  {
    std::lock_guard lock(mutex_);
    all_named = std::ranges::all_of(segments, [](const auto& segment) { return segment->named; });
  }
  if (all_named) co_return all_settled;
  Result<> named = co_await sync_names();
  co_return all_settled&& named;
}

// Of those whose payload is on disk for good: a record counts more than the one of the place where
// the object lay, so that it must not be what a power cut leaves of a copy. Whether there are any.
bool PackedStore::record_copies(Compaction& work) {
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
      into.tail.add_record(end, std::exchange(copy.record, {}));
    }
    any = true;
    --into.records_due;
  }
  return any;
}

// False where it is not known yet whether it is on disk for good.
bool PackedStore::resolve(const Copy& copy) {
  const Segment& into = *copy.into;
  std::optional<Entry> left;
  bool dead = false;
  {
    Shard& part = shard(copy.id);
    std::lock_guard lock(part.mutex);
    if (!part.copies.contains(copy.id)) return true;  // dropped, and that was all seen to
    // Under this lock: whoever marks it forgets afterwards what is in the shards.
    const bool lost = into.failed || into.removing || (into.cut_off && !copy.durable);
    const Entry* found = part.entries.find(copy.id);
    const bool wanted = found != nullptr && copy.place.is_later_than(*found);
    if (wanted && !lost && !copy.durable) return false;
    take_copy(part, copy.id);
    dead = found == nullptr && !lost && copy.recorded();
    if (wanted && !lost) {
      left = *found;
      Entry now = copy.place;
      now.read = found->read && !copy.again;
      part.entries.put(copy.id, now);
    }
  }
  if (dead) queue_word(copy.id, copy.place);  // evicted, or found to be wrong, meanwhile
  object_left(left.value_or(copy.place));
  return true;
}

// Words that are due about what lay there may be needed for earlier places of it.
Task<> PackedStore::end_compaction(SegmentPtr segment, bool moved_all) {
  while (moved_all && *segment->words_due > 0) {
    Result<> slept = co_await sleep_for(Context::background(), kPatience);
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

// Of a segment that goes for want of room, for what could not be loaded: best effort.
Task<> PackedStore::save_words(SegmentPtr segment) {
  if (!segment->covers_earlier) co_return;
  Result<Semaphore::Permit> turn =
      co_await segment->write_turn.acquire(Context::background(), 1, "a segment's writer");
  if (!turn) co_return;
  Result<Buffer> index = co_await whole_index(segment);
  if (!index) co_return;
  for (size_t at = SegmentHeader::kBytes; at < segment->index_bytes;) {
    auto record = SegmentRecord::decode(index->span().subspan(at), &at);
    if (!record) co_return;
    if (record->kind != SegmentRecord::Kind::kDropped || !is_needed(*record, *segment)) continue;
    Result<SegmentPtr> into = co_await add_word(record->encode(), segment->pool, For::kCompaction);
    if (!into) co_return;
  }
}

}  // namespace leat
