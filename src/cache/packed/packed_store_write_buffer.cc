// SPDX-License-Identifier: Apache-2.0
// PackedStore: writes of the write buffers. A piece is written when it is full; the rest one second
// after it arrived, at a flush and when the segment is sealed. Payload goes before records, so a
// record never points to unwritten bytes.
#include <algorithm>

#include "cache/packed/packed_store.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr auto kWriteDelay = std::chrono::seconds(1);
// Size of one write: the disk works on it while writers fill as much again.
constexpr uint64_t kBatchBytes = 4 * SegmentWriteBuffer::kPieceBytes;

uint64_t whole_pieces(uint64_t bytes) {
  return bytes / SegmentWriteBuffer::kPieceBytes * SegmentWriteBuffer::kPieceBytes;
}

}  // namespace

std::optional<Result<>> PackedStore::try_write(const FileRef& ref, const Bytes& data) {
  if (contains(ref.id)) return Result<>();
  Result<Incoming> object = reserve(ref, data, std::nullopt);
  if (!object) return Error(object.error());
  std::optional<Slot> slot = try_take_slot(*object->pool, align_up(data.size(), kPageBytes));
  if (slot) return put(*object, *std::move(slot));
  object->pool->capacity->release(object->charged);
  return std::nullopt;
}

Task<Result<>> PackedStore::write_out(SegmentPtr segment, WriteExtent extent) {
  const Context background = Context::background();
  LEAT_CO_TRY(Semaphore::Permit permit,
              co_await segment->write_semaphore.acquire(background, 1, "a segment's writer"));
  segment->write_queued = false;  // bytes filled later must queue again
  if (segment->write_all.exchange(false)) extent = WriteExtent::kAll;
  std::optional<uint64_t> end = end_of_batch(*segment, extent);
  if (!end || !segment->write_buffer.any_below(*end)) co_return Result<>();
  Result<FilePairPtr> files = files_for_writing(*segment);
  if (*files == nullptr) files = co_await directory_->descriptors.open(background, segment);
  Result<> done = files ? Result<>() : Error(files.error());
  // One thread for all of it: between two batches the disk would wait behind other requests.
  if (files) {
    done = co_await directory_->blocking(
        [this, &segment, &files, extent] { return write_batches(*segment, **files, extent); });
  }
  if (!done) discard_write_buffer(segment, done.error());
  co_return done;
}

FilePairPtr PackedStore::files_for_writing(const Segment& segment) const {
  std::lock_guard lock(mutex_);
  return segment.open_for_writing;
}

// Returns the end of the next batch, between two slots; nothing if none may be written. A whole
// piece is enough, since writers wait for memory.
std::optional<uint64_t> PackedStore::end_of_batch(const Segment& segment,
                                                  WriteExtent extent) const {
  const uint64_t written = segment.write_buffer.written();
  uint64_t end;
  {
    std::lock_guard lock(mutex_);
    if (!segment.is_sound()) return std::nullopt;
    end = segment.filled_bytes();
  }
  if (extent == WriteExtent::kWholePieces && whole_pieces(end) <= written) return std::nullopt;
  return segment.write_buffer.batch_end(kBatchBytes, end);
}

Result<> PackedStore::write_batches(Segment& segment, const FilePair& files, WriteExtent extent) {
  Disk& disk = *directory_->disk;
  for (;;) {
    if (segment.write_all.exchange(false)) extent = WriteExtent::kAll;
    const std::optional<uint64_t> end = end_of_batch(segment, extent);
    if (!end || !segment.write_buffer.any_below(*end)) return {};
    const SegmentWriteBuffer::Batch batch = segment.write_buffer.take_batch(*end);
    if (!batch.payload.empty()) {
      LEAT_CHECK_OK(disk.write_now(files.data.fd(), batch.payload, batch.offset));
    }
    if (!batch.records.empty()) {
      const Bytes records = Bytes::copy_of(batch.records);
      LEAT_CHECK_OK(disk.write_now(files.side.fd(), records, segment.index_bytes));
      segment.index_bytes += records.size();
    }
    directory_->note_written();
    ++segment.writes;
    release_pieces(segment.write_buffer.mark_written(*end));
  }
}

// Drops the bytes that the disk rejected. Earlier bytes stay, and the segment accepts no more.
void PackedStore::discard_write_buffer(const SegmentPtr& segment, const Status& why) {
  uint64_t bytes;
  bool idle;
  {
    std::lock_guard lock(mutex_);
    if (segment->removing) return;
    segment->write_failed = true;
    seal(segment);
    bytes = segment->data_bytes - segment->write_buffer.written();
    idle = segment->filling.empty();
  }
  const uint64_t objects = remove_entries_from(
      *segment, static_cast<uint32_t>(segment->write_buffer.written() / kPageBytes));
  // A failed copy of compaction loses nothing and needs no room.
  if (objects > 0) directory_->note_lost_writes(objects, bytes, why);
  // Writers that still fill a slot need its memory; the last of them continues here.
  if (idle) release_pieces(segment->write_buffer.discard());
  remove_if_dead(segment);
  queue_sync(segment);
}

void PackedStore::release_pieces(uint64_t pieces) {
  if (pieces == 0) return;
  std::shared_ptr<SharedPromise<bool>> freed;
  {
    std::lock_guard lock(mutex_);
    pieces_ -= pieces;
    freed = std::exchange(freed_, nullptr);
  }
  if (freed != nullptr) freed->set(true);
}

void PackedStore::queue_writing(const SegmentPtr& segment) {
  if (segment->write_queued.exchange(true)) return;
  directory_->spawn(write_in_background(shared_from_this(), segment));
}

Task<> PackedStore::write_in_background(std::shared_ptr<PackedStore> self, SegmentPtr segment) {
  Result<> written = co_await self->write_out(segment, WriteExtent::kWholePieces);
  static_cast<void>(written);  // discard_write_buffer has logged it
}

void PackedStore::start_write_timer() {
  if (write_timer_runs_.load(std::memory_order_relaxed) || write_timer_runs_.exchange(true)) return;
  directory_->spawn(write_after_delay(shared_from_this()));
}

Task<> PackedStore::write_after_delay(std::shared_ptr<PackedStore> self) {
  CacheDirectory& directory = *self->directory_;
  Result<> slept = co_await sleep_for(
      Context::background().with_cancel(directory.stopping.get_token()), kWriteDelay);
  if (!slept) co_return;  // close() flushes
  self->write_timer_runs_ = false;
  std::vector<SegmentPtr> open;
  {
    std::lock_guard lock(self->mutex_);
    for (const auto& [pool, segment] : self->open_) open.push_back(segment);
  }
  for (const SegmentPtr& segment : open) {
    segment->write_all = true;
    self->queue_writing(segment);  // each in its own task: one may have much to write
  }
}

}  // namespace leat
