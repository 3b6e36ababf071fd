// SPDX-License-Identifier: Apache-2.0
// PackedStore: writes and segments. An object enters the index only after its bytes and record are
// in the tail. A place in a segment is never filled twice, so a reader may use it later.
#include "cache/packed/packed_store.h"

#include <fcntl.h>
#include <fmt/format.h>

#include "cache/block_crc.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Limit of the pieces in memory of all tails. An object that finds fewer free pieces may take the
// pieces it needs.
constexpr uint64_t kPiecesMax = 16;

// The capacity, or a quota, has at least this many segments: eviction takes whole ones.
constexpr uint64_t kSegmentsOfAll = 32;

// Returns the configured size, limited to a small share of the capacity: eviction takes whole
// segments.
uint64_t fitting_segment_bytes(const PageStoreOptions& options) {
  uint64_t share = options.capacity_bytes / kSegmentsOfAll;
  return align_up(std::max(std::min(options.segment_bytes, share), options.packed_bytes_max),
                  kPageBytes);
}

}  // namespace

PackedStore::PackedStore(std::shared_ptr<CacheDirectory> directory)
    : directory_(std::move(directory)),
      segment_bytes_(fitting_segment_bytes(directory_->options)),
      neighbours_(directory_->options.neighbour_bytes) {}

std::optional<PackedStore::Found> PackedStore::find(const FileId& id) const {
  Shard& part = shard(id);
  std::lock_guard lock(part.mutex);
  const Entry* found = part.entries.find(id);
  if (found == nullptr) return std::nullopt;
  auto holder = part.segments.find(found->segment);
  return Found{*found, holder == part.segments.end() ? nullptr : holder->second};
}

void PackedStore::tell_shards(uint32_t sequence, const SegmentPtr& segment) {
  for (Shard& part : shards_) {
    std::lock_guard lock(part.mutex);
    if (segment == nullptr) {
      part.segments.erase(sequence);
    } else {
      part.segments[sequence] = segment;
    }
  }
}

PackedStore::SegmentPtr PackedStore::segment(uint32_t sequence) const {
  std::lock_guard lock(mutex_);
  auto found = segments_.find(sequence);
  return found == segments_.end() ? nullptr : found->second;
}

bool PackedStore::contains(const FileId& id) const {
  return find(id).has_value();
}

uint64_t PackedStore::cached_bytes(const FileId& id) const {
  auto found = find(id);
  return found ? found->entry.size : 0;
}

uint64_t PackedStore::object_count() const {
  uint64_t count = 0;
  for (const Shard& part : shards_) {
    std::lock_guard lock(part.mutex);
    count += part.entries.size();
  }
  return count;
}

uint64_t PackedStore::segment_count() const {
  std::lock_guard lock(mutex_);
  return segments_.size();
}

Task<Result<>> PackedStore::write(Context context, FileRefPtr ref, Bytes data) {
  if (contains(ref->id)) co_return Result<>();
  co_return co_await store(context, ref, data, std::nullopt);
}

Task<Result<>> PackedStore::store(Context context, FileRefPtr ref, Bytes data,
                                  std::optional<Entry> moved_from) {
  LEAT_CO_TRY(Incoming object, reserve(*ref, data, moved_from));
  const uint64_t pages = align_up(data.size(), kPageBytes);
  if (auto slot = try_take_slot(*object.pool, pages)) co_return put(object, *std::move(slot));
  Result<Slot> slot = co_await take_slot(context, object.pool, pages);
  if (slot) co_return put(object, *std::move(slot));
  object.pool->capacity->give_back(object.charged);
  bool full = slot.error().code() == StatusCode::kNoSpace;
  co_return full ? directory_->refuse(*object.pool, ref->key, data.size())
                 : directory_->write_failed(ref->key, slot.error());
}

Result<PackedStore::Incoming> PackedStore::reserve(const FileRef& ref, const Bytes& data,
                                                   std::optional<Entry> moved_from) {
  std::vector<uint32_t> crcs = block_crcs(data);
  // The object may have been verified long ago: do not give changed bytes a new matching checksum.
  if (moved_from && crc_of_crcs(crcs) != moved_from->crc) {
    return lost(ref.id, *moved_from, ref.key, "its checksum differs");
  }
  uint64_t charged = align_up(data.size(), kPageBytes) +
                     SegmentRecord::encoded_bytes(ref.key, ref.version.value, crcs.size());
  PoolPtr pool = directory_->pools.get(ref.pool);
  if (!pool->capacity->reserve(charged)) return directory_->refuse(*pool, ref.key, data.size());
  directory_->reserved(*pool, charged);
  return Incoming{ref, data, std::move(pool), std::move(crcs), charged, moved_from};
}

// Puts the payload into the tail, then the record and the index entry. If two writers bring the
// same object at once, both take a place. One place stays unused until its segment goes, and gets
// no record.
Result<> PackedStore::put(const Incoming& object, Slot slot) {
  const auto& [ref, data, pool, crcs, charged, moved_from] = object;
  Segment& segment = *slot.segment;
  segment.charge.adopt(charged);
  SegmentTail::fill(slot.place, data);
  const std::string record =
      SegmentRecord::encode(SegmentRecord::Kind::kObject, ref, slot.offset, crcs);
  Entry entry{.segment = segment.sequence,
              .page = static_cast<uint32_t>(slot.offset / kPageBytes),
              .crc = crc_of_crcs(crcs),
              .size = static_cast<uint32_t>(data.size()),
              .verified = false,
              .read = false};
  segment.newest_ns = birth_now_ns();
  segment.last_pass = pool->now();
  bool entered = enter(ref.id, entry, slot, record, moved_from.has_value());
  release_slot(slot);
  if (entered) return {};
  return directory_->write_failed(
      ref.key, Status(StatusCode::kInternal, "what came before it could not be written"));
}

// Returns false if the segment failed meanwhile. An entry of another writer stays, since it may be
// durable. A later place would replace it after a start, and a power cut could lose that place.
bool PackedStore::enter(const FileId& id, const Entry& entry, const Slot& slot,
                        const std::string& record, bool moved) {
  Segment& into = *slot.segment;
  std::optional<Entry> left;
  {
    Shard& part = shard(id);
    std::lock_guard lock(part.mutex);
    // Under this lock: a thread that marks the segment forgets its entries in the shards
    // afterwards.
    if (!into.is_sound()) return false;
    const Entry* found = part.entries.find(id);
    if (found == nullptr && moved) return true;  // dropped meanwhile
    if (found != nullptr) {
      const auto holder = part.segments.find(found->segment);
      const bool stays = holder != part.segments.end() && holder->second->is_sound();
      if (stays || !entry.is_later_than(*found)) return true;
      left = *found;
    }
    into.tail.add_record(slot.offset + align_up(entry.size, kPageBytes), record);
    part.entries.put(id, entry);
  }
  count_live(into, entry);
  if (left) object_left(*left);
  return true;
}

PackedStore::SegmentPtr PackedStore::open_segment(PoolId pool) const {
  auto found = open_.find(static_cast<uint64_t>(pool));
  return found == open_.end() ? nullptr : found->second;
}

void PackedStore::seal(const SegmentPtr& segment) {
  segment->sealed = true;
  if (is_open(segment)) open_.erase(static_cast<uint64_t>(segment->pool->id));
}

std::optional<PackedStore::Slot> PackedStore::try_take_slot(const Pool& pool, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  SegmentPtr into = open_segment(pool.id);
  if (into == nullptr || is_full(*into, bytes)) return std::nullopt;
  const uint64_t offset = into->data_bytes, end = offset + bytes;
  uint64_t more = 0;
  if (end > into->memory_bytes) {
    if (tails_are_full()) return std::nullopt;
    more = (end - into->memory_bytes + SegmentTail::kPieceBytes - 1) / SegmentTail::kPieceBytes;
    into->memory_bytes += more * SegmentTail::kPieceBytes;
    pieces_ += more;
  }
  into->data_bytes = end;
  SegmentTail::Place place = into->tail.add_place(offset, more);
  const uint64_t number = into->filling.begin(offset);
  return Slot{std::move(into), offset, place, number};
}

// Keeps a segment small beside the pool's quota, too.
bool PackedStore::is_full(const Segment& segment, uint64_t more) const {
  const uint64_t share = std::max(segment.pool->capacity->limit() / kSegmentsOfAll,
                                  directory_->options.packed_bytes_max);
  return segment.data_bytes + more > std::min(segment_bytes_, align_up(share, kPageBytes));
}

// Each open segment keeps one piece that is not full.
bool PackedStore::tails_are_full() const {
  return pieces_ >= kPiecesMax + open_.size();
}

Task<Result<PackedStore::Slot>> PackedStore::take_slot(Context context, PoolPtr pool,
                                                       uint64_t bytes, For whom) {
  for (;;) {
    if (std::optional<Slot> slot = try_take_slot(*pool, bytes)) co_return *slot;
    std::shared_ptr<SharedResult<bool>> freed;
    SegmentPtr full;
    {
      std::lock_guard lock(mutex_);
      SegmentPtr into = open_segment(pool->id);
      if (into != nullptr && is_full(*into, bytes)) {
        seal(into);
        full = into;
      } else if (into != nullptr && tails_are_full()) {
        if (freed_ == nullptr) freed_ = SharedResult<bool>::make();
        freed = freed_;
      }
    }
    if (full != nullptr) queue_settling(full);
    if (freed == nullptr) {
      LEAT_CO_CHECK_OK(co_await begin_segment(context, pool, whom));
    } else {
      LEAT_CO_CHECK_OK(co_await freed->wait(context, "the cache disk to take small objects"));
    }
  }
}

// Creates an open segment unless one exists by now. One task creates it for all waiters.
Task<Result<>> PackedStore::begin_segment(Context context, PoolPtr pool, For whom) {
  const auto number = static_cast<uint64_t>(pool->id);
  std::shared_ptr<SharedResult<bool>> creating;
  bool creator = false;
  {
    std::lock_guard lock(mutex_);
    if (open_segment(pool->id) != nullptr) co_return Result<>();
    auto [place, first] = creating_.try_emplace(number);
    if (first) place->second = SharedResult<bool>::make();
    creator = first;
    creating = place->second;
  }
  if (!creator) {
    Result<bool> created = co_await creating->wait(context, "creation of a cache segment");
    if (!created) co_return Error(created.error());
    co_return Result<>();
  }
  Result<SegmentPtr> made = co_await create_segment(pool, whom);
  if (made) tell_shards((*made)->sequence, *made);
  {
    std::lock_guard lock(mutex_);
    if (made) segments_[(*made)->sequence] = open_[number] = *made;
    creating_.erase(number);
  }
  if (!made) {
    creating->set(Error(made.error()));
    co_return Error(made.error());
  }
  creating->set(true);
  co_return Result<>();
}

Task<Result<PackedStore::SegmentPtr>> PackedStore::create_segment(PoolPtr pool, For whom) {
  uint32_t sequence;
  {
    std::lock_guard lock(mutex_);
    sequence = next_sequence_++;
  }
  auto segment = std::make_shared<Segment>(sequence, birth_now_ns(), std::move(pool));
  // One page for each file, so that charges for records need no rounding.
  if (!segment->charge.grow(2 * kPageBytes)) {
    co_return error(StatusCode::kNoSpace, "no room for a new segment");
  }
  CacheDirectory* directory = directory_.get();
  Result<FilePairPtr> files =
      co_await directory->blocking([directory, &segment]() -> Result<FilePairPtr> {
        constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL;
        auto made = std::make_shared<FilePair>();
        LEAT_TRY(made->data,
                 directory->disk->open(directory->path(segment->data_name()), kFlags, 0600));
        LEAT_TRY(made->side,
                 directory->disk->open(directory->path(segment->side_name()), kFlags, 0600));
        return made;
      });
  Result<> written;
  if (files) {
    Bytes header =
        Bytes::copy_of(SegmentHeader{sequence, directory->uuid, segment->pool->id}.encode());
    int side = (*files)->side.fd();
    written = co_await directory->disk->write(Context::background(), side, header, 0);
  } else {
    written = Error(files.error());
  }
  if (!written) {
    const bool full = written.error().code() == StatusCode::kNoSpace;
    if (full && whom == For::kWriter) directory_->capacity->note_refused();
    co_await remove(segment);
    co_return Error(written.error());
  }
  segment->index_bytes = SegmentHeader::kBytes;
  segment->being_filled = *files;  // no other task has it yet
  directory->descriptors.adopt(segment, *files);
  co_return segment;
}

void PackedStore::release_slot(const Slot& slot) {
  const SegmentPtr& segment = slot.segment;
  bool piece_is_full, last_of_sealed;
  {
    std::lock_guard lock(mutex_);
    segment->filling.end(slot.number);
    uint64_t whole = segment->filled_bytes() / SegmentTail::kPieceBytes * SegmentTail::kPieceBytes;
    piece_is_full = whole > segment->tail.written();
    last_of_sealed = segment->sealed && segment->filling.empty();
  }
  if (last_of_sealed) {
    queue_settling(segment);
  } else if (piece_is_full) {
    queue_writing(segment);
  }
  start_clock();
  // If its objects were dropped meanwhile, the removal waited for this slot.
  if (segment->live_objects == 0 || segment->failed) remove_if_dead(segment);
}

// Returns false if the object is no longer at that place.
bool PackedStore::forget(const FileId& id, const Entry& entry, std::optional<Entry>* copy) {
  {
    Shard& part = shard(id);
    std::lock_guard lock(part.mutex);
    const Entry* found = part.entries.find(id);
    if (found == nullptr || !found->same_place(entry)) return false;
    part.entries.erase(id);
    if (copy != nullptr) *copy = take_copy(part, id);
  }
  object_left(entry);
  return true;
}

void PackedStore::count_live(Segment& segment, const Entry& entry) {
  ++segment.live_objects;
  segment.live_bytes += static_cast<int64_t>(align_up(entry.size, kPageBytes));
}

// The last object starts the removal of the segment.
void PackedStore::object_left(const Entry& entry) {
  SegmentPtr from = segment(entry.segment);
  if (from == nullptr) return;
  from->live_bytes -= static_cast<int64_t>(align_up(entry.size, kPageBytes));
  if (--from->live_objects > 0) return;
  remove_if_dead(from);
}

void PackedStore::remove_if_dead(const SegmentPtr& segment) {
  if (!begin_removal(segment)) return;
  directory_->spawn(remove_in_background(shared_from_this(), segment));
}

bool PackedStore::begin_removal(const SegmentPtr& segment) {
  std::lock_guard lock(mutex_);
  if (segment->removing || segment->compacting || !segment->filling.empty()) return false;
  if (!segment->failed) {
    // A writer counts its object before its slot is released, so this check cannot miss one.
    if (segment->live_objects > 0) return false;
    bool unused = segment->data_bytes == 0 && !segment->covers_earlier;
    if (unused || covers_what_is_there(*segment)) return false;
  }
  segment->removing = true;
  seal(segment);
  return true;
}

Task<> PackedStore::remove_in_background(std::shared_ptr<PackedStore> self, SegmentPtr segment) {
  co_await self->remove(segment);
}

// Removes a segment after begin_removal(), or after its creation failed.
Task<> PackedStore::remove(SegmentPtr segment) {
  segment->charge.hold();
  give_back_pieces(segment->tail.abandon());
  {
    std::lock_guard lock(mutex_);
    segment->being_filled = nullptr;
  }
  if (segment->covers_earlier) {
    // Segments that this one covers must be gone first, durably. If this fails, a dropped object
    // may return after a power cut.
    co_await removals(segment->sequence);
    Result<> synced = co_await sync_names();
    static_cast<void>(synced);
  }
  const bool gone = co_await directory_->remove_files(*segment, segment->charge);

  tell_shards(segment->sequence, nullptr);
  SegmentPtr oldest;
  {
    std::lock_guard lock(mutex_);
    const bool had_objects = segments_.erase(segment->sequence) > 0;
    if (!gone && had_objects) stranded_.insert(segment->sequence);
    if (!segments_.empty()) oldest = segments_.begin()->second;
  }
  segment->gone->set(true);
  if (oldest != nullptr) remove_if_dead(oldest);  // the segments it covers are gone now
}

}  // namespace leat
