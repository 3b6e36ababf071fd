// SPDX-License-Identifier: Apache-2.0
// Writing and dropping. An object is in the index only after its bytes and its record were
// written; a place in a segment is never written twice, so whoever found it may read it at leisure.
#include "cache/packed_store.h"

#include <fcntl.h>
#include <fmt/format.h>

#include "cache/block_crc.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// The configured size, but small beside the capacity: eviction takes whole segments.
uint64_t fitting_segment_bytes(const PageStoreOptions& options) {
  uint64_t share = options.capacity_bytes / 16;
  return align_up(std::max(std::min(options.segment_bytes, share), options.packed_bytes_max),
                  kPageBytes);
}

}  // namespace

PackedStore::PackedStore(std::shared_ptr<CacheDirectory> directory)
    : directory_(std::move(directory)),
      segment_bytes_(fitting_segment_bytes(directory_->options)) {}

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
  Shard& part = shard(ref->id);
  std::shared_ptr<SharedResult<bool>> writing;
  for (bool mine = false; !mine;) {
    {
      std::lock_guard lock(part.mutex);
      if (part.entries.find(ref->id) != nullptr) co_return Result<>();
      auto [place, first] = part.writing.try_emplace(ref->id);
      if (first) place->second = SharedResult<bool>::make();
      writing = place->second;
      mine = first;
    }
    if (mine) break;
    // If the other one fails we have a try of our own.
    LEAT_CO_CHECK_OK(co_await writing->wait(context, "another write of the same object"));
  }
  Result<> stored = co_await store(context, ref, data, std::nullopt);
  {
    std::lock_guard lock(part.mutex);
    part.writing.erase(ref->id);
  }
  writing->set(true);
  co_return stored;
}

Task<Result<>> PackedStore::store(Context context, FileRefPtr ref, Bytes data,
                                  std::optional<Entry> moved_from) {
  SegmentRecord record{SegmentRecord::Kind::kObject, *ref, 0, block_crcs(data)};
  // Verified once, but perhaps long ago: its bytes must not get a checksum that fits them now.
  if (moved_from && crc_of_crcs(record.crcs) != moved_from->crc) {
    co_return lost(ref->id, *moved_from, ref->key, "its checksum differs");
  }
  uint64_t pages = align_up(data.size(), kPageBytes);
  Result<Slot> slot = co_await take_slot(context, pages);
  if (!slot && slot.error().code() == StatusCode::kNoSpace) {
    co_return directory_->refuse(ref->key, data.size());
  }
  if (!slot) co_return directory_->write_failed(ref->key, slot.error());
  record.offset = slot->offset;
  uint64_t charged = pages + record.encode().size();
  if (!slot->segment->charge.grow(charged)) {
    release_slot(*slot, false, 0);
    remove_if_dead(slot->segment);
    co_return directory_->refuse(ref->key, data.size());
  }
  directory_->reserved(charged);
  Result<> filled = co_await fill_slot(context, *slot, record, data, moved_from);

  release_slot(*slot, filled.has_value(), charged);
  remove_if_dead(slot->segment);  // where it was dropped meanwhile

  if (!filled) co_return directory_->write_failed(ref->key, filled.error());
  directory_->capacity->note_taken();
  co_return Result<>();
}

// Payload, then its record, then the index in memory.
Task<Result<>> PackedStore::fill_slot(Context context, Slot slot, SegmentRecord record, Bytes data,
                                      std::optional<Entry> moved_from) {
  Result<OpenFilesPtr> files = co_await directory_->descriptors.open(context, slot.segment);
  if (!files) co_return Error(files.error());
  Result<> written =
      co_await directory_->disk->write(context, (*files)->data.fd(), data, slot.offset);
  if (!written) co_return written;
  Result<> appended = co_await slot.segment->append(directory_, record.encode());
  if (!appended) co_return appended;
  ++slot.segment->writes;
  Entry entry{.segment = slot.segment->sequence,
              .page = static_cast<uint32_t>(slot.offset / kPageBytes),
              .crc = crc_of_crcs(record.crcs),
              .size = static_cast<uint32_t>(data.size()),
              .verified = false,
              .read = false};
  bool entered = enter(record.ref.id, entry, slot.segment, moved_from);
  if (!entered) co_return error(StatusCode::kInternal, "what came before it could not be synced");
  co_return Result<>();
}

// False where the segment failed meanwhile.
bool PackedStore::enter(const FileId& id, const Entry& entry, const SegmentPtr& into,
                        std::optional<Entry> moved_from) {
  {
    Shard& part = shard(id);
    std::lock_guard lock(part.mutex);
    // Under this lock: whoever marks it forgets afterwards what is in the shards.
    if (into->failed) return false;
    Entry* found = part.entries.find(id);
    if (moved_from) {
      // Dropped meanwhile: the copy is dead, too.
      if (found == nullptr || !found->same_place(*moved_from)) return true;
      *found = entry;
    } else {
      part.entries.put(id, entry);
    }
  }
  ++into->live_objects;
  if (!moved_from) return true;
  if (SegmentPtr before = segment(moved_from->segment)) --before->live_objects;
  return true;
}

Task<Result<PackedStore::Slot>> PackedStore::take_slot(Context context, uint64_t bytes) {
  for (;;) {
    std::shared_ptr<SharedResult<bool>> creating;
    SegmentPtr full;
    bool creator = false;
    {
      std::lock_guard lock(mutex_);
      if (active_ != nullptr && active_->data_bytes + bytes <= segment_bytes_) {
        Slot slot{active_, active_->data_bytes, bytes};
        active_->data_bytes += bytes;
        active_->filling.insert(slot.offset);
        co_return slot;
      }
      if (active_ != nullptr) {
        active_->sealed = true;
        full = std::exchange(active_, nullptr);
      }
      creator = creating_ == nullptr;
      if (creator) creating_ = SharedResult<bool>::make();
      creating = creating_;
    }
    if (full != nullptr) queue_settling(full);
    if (!creator) {
      Result<bool> created = co_await creating->wait(context, "creation of a cache segment");
      if (!created) co_return Error(created.error());
      continue;
    }
    Result<SegmentPtr> made = co_await create_segment();
    if (made) tell_shards((*made)->sequence, *made);
    {
      std::lock_guard lock(mutex_);
      if (made) segments_[(*made)->sequence] = active_ = *made;
      creating_ = nullptr;
    }
    if (!made) {
      creating->set(Error(made.error()));
      co_return Error(made.error());
    }
    creating->set(true);
  }
}

Task<Result<PackedStore::SegmentPtr>> PackedStore::create_segment() {
  uint32_t sequence;
  {
    std::lock_guard lock(mutex_);
    sequence = next_sequence_++;
  }
  auto segment = std::make_shared<Segment>(sequence, birth_now_ns(), directory_->capacity);
  // One page of each file, so that what is charged for records needs no rounding.
  if (!segment->charge.grow(2 * kPageBytes)) {
    co_return error(StatusCode::kNoSpace, "no room for a new segment");
  }
  CacheDirectory* directory = directory_.get();
  Result<OpenFilesPtr> files =
      co_await directory->executor.blocking([directory, &segment]() -> Result<OpenFilesPtr> {
        constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL;
        auto made = std::make_shared<OpenFiles>();
        LEAT_TRY(made->data,
                 directory->disk->open(directory->path(segment->data_name()), kFlags, 0600));
        LEAT_TRY(made->side,
                 directory->disk->open(directory->path(segment->side_name()), kFlags, 0600));
        return made;
      });
  Result<> written;
  if (files) {
    Bytes header = Bytes::copy_of(SegmentHeader{sequence, directory->uuid}.encode());
    int side = (*files)->side.fd();
    written = co_await directory->disk->write(Context::background(), side, header, 0);
  } else {
    written = Error(files.error());
  }
  if (!written) {
    if (written.error().code() == StatusCode::kNoSpace) directory_->capacity->note_refused();
    co_await remove(segment);
    co_return Error(written.error());
  }
  segment->set_index_bytes(SegmentHeader::kBytes);
  directory->descriptors.adopt(segment, *files);
  co_return segment;
}

void PackedStore::release_slot(const Slot& slot, bool filled, uint64_t charged) {
  std::lock_guard lock(mutex_);
  slot.segment->filling.erase(slot.segment->filling.find(slot.offset));
  // A place that was not filled can only be used again while it is the last; otherwise it stays
  // charged until the segment goes, since some of it may be on disk.
  if (filled || slot.segment->data_bytes != slot.offset + slot.bytes) return;
  slot.segment->data_bytes = slot.offset;
  slot.segment->charge.shrink(charged);
}

// False where the object is no longer at that place.
bool PackedStore::forget(const FileId& id, const Entry& entry) {
  {
    Shard& part = shard(id);
    std::lock_guard lock(part.mutex);
    const Entry* found = part.entries.find(id);
    if (found == nullptr || !found->same_place(entry)) return false;
    part.entries.erase(id);
  }
  object_left(entry.segment);
  return true;
}

// The last one takes the segment with it.
void PackedStore::object_left(uint32_t sequence) {
  SegmentPtr from = segment(sequence);

  if (from == nullptr || --from->live_objects > 0) return;
  remove_if_dead(from);
}

void PackedStore::remove_if_dead(const SegmentPtr& segment) {
  if (!begin_removal(segment)) return;
  directory_->spawn(remove_in_background(shared_from_this(), segment));
}

uint64_t PackedStore::drop(const FileId& id) {
  std::optional<Found> found = find(id);
  if (!found || !forget(id, found->entry)) return 0;
  directory_->spawn(record_drop(shared_from_this(), id, found->entry.segment));
  return found->entry.size;
}

// Without this word the object would be back after a restart: not wrong, but not what was asked.
Task<> PackedStore::record_drop(std::shared_ptr<PackedStore> self, FileId id, uint32_t sequence) {
  // A segment that dies with its last object takes the object's record along; one that must stay
  // for its words about other drops does not.
  if (self->is_leaving(sequence)) co_return;
  SegmentRecord word;
  word.kind = SegmentRecord::Kind::kDropped;
  word.ref.id = id;
  std::string record = word.encode();
  Result<Slot> slot = co_await self->take_slot(Context::background(), 0);
  if (!slot) co_return;
  if (slot->segment->charge.grow(record.size())) {
    slot->segment->has_drops = true;
    Result<> appended = co_await slot->segment->append(self->directory_, record);
    if (appended) ++slot->segment->writes;
  }
  self->release_slot(*slot, true, 0);
  self->remove_if_dead(slot->segment);  // what died meanwhile waited for us
}

bool PackedStore::is_leaving(uint32_t sequence) const {
  std::lock_guard lock(mutex_);
  auto found = segments_.find(sequence);
  return found == segments_.end() || found->second->removing;
}

bool PackedStore::begin_removal(const SegmentPtr& segment) {
  std::lock_guard lock(mutex_);
  if (segment->removing || !segment->filling.empty()) return false;
  if (!segment->failed) {
    // A writer counts its object before it stops being a writer, so this cannot miss one.
    if (segment->live_objects > 0) return false;
    bool unused = segment->data_bytes == 0 && !segment->has_drops;
    // Its words about drops are needed as long as there are earlier segments.
    bool needed = segment->has_drops && segments_.begin()->second != segment;
    if (unused || needed) return false;
  }
  segment->removing = segment->sealed = true;
  if (active_ == segment) active_ = nullptr;
  return true;
}

Task<> PackedStore::remove_in_background(std::shared_ptr<PackedStore> self, SegmentPtr segment) {
  co_await self->remove(segment);
}

// Of a segment whose removal was begun, or that never came to be.
Task<> PackedStore::remove(SegmentPtr segment) {
  segment->charge.hold();
  CacheDirectory* directory = directory_.get();
  // Data whose .index is gone is removed at the next start, so .index goes first.
  Result<> removed = co_await directory->executor.blocking([directory, &segment]() -> Result<> {
    segment->close_files();
    Result<> side = directory->disk->unlink(directory->path(segment->side_name()));
    Result<> data = directory->disk->unlink(directory->path(segment->data_name()));
    if (!side && side.error().code() != StatusCode::kNotFound) return side;
    if (!data && data.error().code() != StatusCode::kNotFound) return data;
    return {};
  });
  if (!removed) {
    segment->charge.never_give_back();
    log::warning("cache {}: {} bytes stay in use until the next start: {}",
                 directory->options.directory, segment->charge.bytes(),
                 removed.error().to_string());
  }

  tell_shards(segment->sequence, nullptr);
  SegmentPtr oldest;
  {
    std::lock_guard lock(mutex_);
    segments_.erase(segment->sequence);
    if (!segments_.empty()) oldest = segments_.begin()->second;
  }
  if (oldest != nullptr) remove_if_dead(oldest);  // its words about drops are not needed any more
}

}  // namespace leat
