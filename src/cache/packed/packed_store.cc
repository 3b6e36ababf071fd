// SPDX-License-Identifier: Apache-2.0
// PackedStore: writes and segments. An object enters the index only after its bytes and record are
// in the write buffer. A slot of a segment is never filled twice, so a reader may use it later.
#include "cache/packed/packed_store.h"

#include <fcntl.h>
#include <fmt/format.h>

#include "cache/block_crc.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Limit of the pieces of all write buffers. An object that finds fewer free pieces may take the
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
      readahead_(directory_->options.segment_readahead_bytes) {}

std::optional<PackedStore::Lookup> PackedStore::find(const FileId& id) const {
  Shard& part = shard(id);
  std::lock_guard lock(part.mutex);
  const Entry* found = part.entries.find(id);
  if (found == nullptr) return std::nullopt;
  auto holder = part.segments.find(found->segment);
  return Lookup{*found, holder == part.segments.end() ? nullptr : holder->second};
}

void PackedStore::update_shards(uint32_t sequence, const SegmentPtr& segment) {
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
  object.pool->capacity->release(object.charged);
  bool full = slot.error().code() == StatusCode::kNoSpace;
  co_return full ? directory_->reject_write(*object.pool, ref->key, data.size())
                 : directory_->write_failed(ref->key, slot.error());
}

Result<PackedStore::Incoming> PackedStore::reserve(const FileRef& ref, const Bytes& data,
                                                   std::optional<Entry> moved_from) {
  std::vector<uint32_t> crcs = block_crcs(data);
  // The object may have been verified long ago: do not give changed bytes a new matching checksum.
  if (moved_from && crc_of_crcs(crcs) != moved_from->crc) {
    return drop_corrupt(ref.id, *moved_from, ref.key, "its checksum differs");
  }
  uint64_t charged = align_up(data.size(), kPageBytes) +
                     SegmentRecord::encoded_bytes(ref.key, ref.version.value, crcs.size());
  PoolPtr pool = directory_->pools.get(ref.pool);
  if (!pool->capacity->reserve(charged))
    return directory_->reject_write(*pool, ref.key, data.size());
  directory_->note_reserved(*pool, charged);
  return Incoming{ref, data, std::move(pool), std::move(crcs), charged, moved_from};
}

// Puts the payload into the write buffer, then the record and the index entry. If two writers
// store the same object at once, both take a slot. One slot stays unused until its segment is
// removed, and gets no record.
Result<> PackedStore::put(const Incoming& object, Slot slot) {
  const auto& [ref, data, pool, crcs, charged, moved_from] = object;
  Segment& segment = *slot.segment;
  segment.charge.adopt(charged);
  SegmentWriteBuffer::fill(slot.reservation, data);
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
  bool entered = insert_entry(ref.id, entry, slot, record, moved_from.has_value());
  release_slot(slot);
  if (entered) return {};
  return directory_->write_failed(
      ref.key,
      Status(StatusCode::kInternal, "bytes before it in the segment could not be written"));
}

// Returns false if the segment failed meanwhile. An entry of another writer stays, since it may be
// durable. A later copy would replace it after a start, and a power cut could lose that copy.
bool PackedStore::insert_entry(const FileId& id, const Entry& entry, const Slot& slot,
                               const std::string& record, bool moved) {
  Segment& into = *slot.segment;
  std::optional<Entry> left;
  {
    Shard& part = shard(id);
    std::lock_guard lock(part.mutex);
    // Under this lock: a thread that marks the segment removes its entries from the shards
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
    into.write_buffer.add_record(slot.offset + align_up(entry.size, kPageBytes), record);
    part.entries.put(id, entry);
  }
  count_live(into, entry);
  if (left) uncount_live(*left);
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
    if (write_buffers_are_full()) return std::nullopt;
    more = (end - into->memory_bytes + SegmentWriteBuffer::kPieceBytes - 1) /
           SegmentWriteBuffer::kPieceBytes;
    into->memory_bytes += more * SegmentWriteBuffer::kPieceBytes;
    pieces_ += more;
  }
  into->data_bytes = end;
  SegmentWriteBuffer::Reservation reservation = into->write_buffer.reserve(offset, more);
  const uint64_t number = into->filling.begin(offset);
  return Slot{std::move(into), offset, reservation, number};
}

// Keeps a segment small beside the pool's quota, too.
bool PackedStore::is_full(const Segment& segment, uint64_t more) const {
  const uint64_t share = std::max(segment.pool->capacity->limit() / kSegmentsOfAll,
                                  directory_->options.packed_bytes_max);
  return segment.data_bytes + more > std::min(segment_bytes_, align_up(share, kPageBytes));
}

// Each open segment keeps one piece that is not full.
bool PackedStore::write_buffers_are_full() const {
  return pieces_ >= kPiecesMax + open_.size();
}

Task<Result<PackedStore::Slot>> PackedStore::take_slot(Context context, PoolPtr pool,
                                                       uint64_t bytes, SlotUser user) {
  for (;;) {
    if (std::optional<Slot> slot = try_take_slot(*pool, bytes)) co_return *slot;
    std::shared_ptr<SharedPromise<bool>> freed;
    SegmentPtr full;
    {
      std::lock_guard lock(mutex_);
      SegmentPtr into = open_segment(pool->id);
      if (into != nullptr && is_full(*into, bytes)) {
        seal(into);
        full = into;
      } else if (into != nullptr && write_buffers_are_full()) {
        if (freed_ == nullptr) freed_ = SharedPromise<bool>::make();
        freed = freed_;
      }
    }
    if (full != nullptr) queue_sync(full);
    if (freed == nullptr) {
      LEAT_CO_CHECK_OK(co_await begin_segment(context, pool, user));
    } else {
      LEAT_CO_CHECK_OK(co_await freed->wait(context, "the cache disk to take small objects"));
    }
  }
}

// Creates an open segment unless one exists by now. One task creates it for all waiters.
Task<Result<>> PackedStore::begin_segment(Context context, PoolPtr pool, SlotUser user) {
  const auto number = static_cast<uint64_t>(pool->id);
  std::shared_ptr<SharedPromise<bool>> creating;
  bool creator = false;
  {
    std::lock_guard lock(mutex_);
    if (open_segment(pool->id) != nullptr) co_return Result<>();
    auto [place, first] = creating_.try_emplace(number);
    if (first) place->second = SharedPromise<bool>::make();
    creator = first;
    creating = place->second;
  }
  if (!creator) {
    Result<bool> created = co_await creating->wait(context, "creation of a cache segment");
    if (!created) co_return Error(created.error());
    co_return Result<>();
  }
  Result<SegmentPtr> made = co_await create_segment(pool, user);
  if (made) update_shards((*made)->sequence, *made);
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

Task<Result<PackedStore::SegmentPtr>> PackedStore::create_segment(PoolPtr pool, SlotUser user) {
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
    if (full && user == SlotUser::kWriter) directory_->capacity->note_write_rejected();
    co_await remove(segment);
    co_return Error(written.error());
  }
  segment->index_bytes = SegmentHeader::kBytes;
  segment->open_for_writing = *files;  // no other task has it yet
  directory->descriptors.adopt(segment, *files);
  co_return segment;
}

void PackedStore::release_slot(const Slot& slot) {
  const SegmentPtr& segment = slot.segment;
  bool piece_is_full, last_of_sealed;
  {
    std::lock_guard lock(mutex_);
    segment->filling.end(slot.number);
    uint64_t whole =
        segment->filled_bytes() / SegmentWriteBuffer::kPieceBytes * SegmentWriteBuffer::kPieceBytes;
    piece_is_full = whole > segment->write_buffer.written();
    last_of_sealed = segment->sealed && segment->filling.empty();
  }
  if (last_of_sealed) {
    queue_sync(segment);
  } else if (piece_is_full) {
    queue_writing(segment);
  }
  start_write_timer();
  // If its objects were dropped meanwhile, the removal waited for this slot.
  if (segment->live_objects == 0 || segment->sync_failed) remove_if_dead(segment);
}

// Returns false if the object is no longer at that location.
bool PackedStore::remove_entry(const FileId& id, const Entry& entry, std::optional<Entry>* copy) {
  {
    Shard& part = shard(id);
    std::lock_guard lock(part.mutex);
    const Entry* found = part.entries.find(id);
    if (found == nullptr || !found->same_location(entry)) return false;
    part.entries.erase(id);
    if (copy != nullptr) *copy = take_copy(part, id);
  }
  uncount_live(entry);
  return true;
}

void PackedStore::count_live(Segment& segment, const Entry& entry) {
  ++segment.live_objects;
  segment.live_bytes += static_cast<int64_t>(align_up(entry.size, kPageBytes));
}

// The last object starts the removal of the segment.
void PackedStore::uncount_live(const Entry& entry) {
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
  if (!segment->sync_failed) {
    // A writer counts its object before its slot is released, so this check cannot miss one.
    if (segment->live_objects > 0) return false;
    bool unused = segment->data_bytes == 0 && !segment->covers_earlier;
    if (unused || covers_existing(*segment)) return false;
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
  segment->charge.mark_unlinked();
  release_pieces(segment->write_buffer.discard());
  {
    std::lock_guard lock(mutex_);
    segment->open_for_writing = nullptr;
  }
  if (segment->covers_earlier) {
    // Segments that this one covers must be removed first, durably. If this fails, a dropped object
    // may return after a power cut.
    co_await wait_for_removals(segment->sequence);
    Result<> synced = co_await sync_names();
    static_cast<void>(synced);
  }
  const bool gone = co_await directory_->remove_files(*segment, segment->charge);

  update_shards(segment->sequence, nullptr);
  SegmentPtr oldest;
  {
    std::lock_guard lock(mutex_);
    const bool had_objects = segments_.erase(segment->sequence) > 0;
    if (!gone && had_objects) stranded_.insert(segment->sequence);
    if (!segments_.empty()) oldest = segments_.begin()->second;
  }
  segment->removed->set(true);
  if (oldest != nullptr) remove_if_dead(oldest);  // the segments it covers are removed now
}

}  // namespace leat
