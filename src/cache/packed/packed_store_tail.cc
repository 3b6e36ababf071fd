// SPDX-License-Identifier: Apache-2.0
// PackedStore: writes of the tail. A piece is written when it is full; the rest one second after it
// arrived, at a flush and when the segment is sealed. Payload goes before records, so a record
// never points to unwritten bytes.
#include <algorithm>

#include "cache/packed/packed_store.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr auto kIdle = std::chrono::seconds(1);
// Size of one write: the disk works on it while writers fill as much again.
constexpr uint64_t kBatchBytes = 4 * SegmentTail::kPieceBytes;

uint64_t whole_pieces(uint64_t bytes) {
  return bytes / SegmentTail::kPieceBytes * SegmentTail::kPieceBytes;
}

}  // namespace

std::optional<Result<>> PackedStore::try_write(const FileRef& ref, const Bytes& data) {
  if (contains(ref.id)) return Result<>();
  Result<Incoming> object = reserve(ref, data, std::nullopt);
  if (!object) return Error(object.error());
  std::optional<Slot> slot = try_take_slot(*object->pool, align_up(data.size(), kPageBytes));
  if (slot) return put(*object, *std::move(slot));
  object->pool->capacity->give_back(object->charged);
  return std::nullopt;
}

Task<Result<>> PackedStore::write_out(SegmentPtr segment, Extent extent) {
  const Context background = Context::background();
  LEAT_CO_TRY(Semaphore::Permit turn,
              co_await segment->write_turn.acquire(background, 1, "a segment's writer"));
  segment->write_queued = false;  // bytes filled later must queue again
  if (segment->write_all.exchange(false)) extent = Extent::kAll;
  std::optional<uint64_t> end = end_of_batch(*segment, extent);
  if (!end || !segment->tail.any_below(*end)) co_return Result<>();
  Result<FilePairPtr> files = files_to_fill(*segment);
  if (*files == nullptr) files = co_await directory_->descriptors.open(background, segment);
  Result<> done = files ? Result<>() : Error(files.error());
  // One thread for all of it: between two batches the disk would wait behind other requests.
  if (files) {
    done = co_await directory_->blocking(
        [this, &segment, &files, extent] { return write_batches(*segment, **files, extent); });
  }
  if (!done) lose_tail(segment, done.error());
  co_return done;
}

FilePairPtr PackedStore::files_to_fill(const Segment& segment) const {
  std::lock_guard lock(mutex_);
  return segment.being_filled;
}

// Returns the end of the next batch, between two places; nothing if none may be written. A whole
// piece is enough, since writers wait for memory.
std::optional<uint64_t> PackedStore::end_of_batch(const Segment& segment, Extent extent) const {
  const uint64_t written = segment.tail.written();
  uint64_t end;
  {
    std::lock_guard lock(mutex_);
    if (!segment.is_sound()) return std::nullopt;
    end = segment.filled_bytes();
  }
  if (extent == Extent::kWholePieces && whole_pieces(end) <= written) return std::nullopt;
  return segment.tail.end_near(kBatchBytes, end);
}

Result<> PackedStore::write_batches(Segment& segment, const FilePair& files, Extent extent) {
  Disk& disk = *directory_->disk;
  for (;;) {
    if (segment.write_all.exchange(false)) extent = Extent::kAll;
    const std::optional<uint64_t> end = end_of_batch(segment, extent);
    if (!end || !segment.tail.any_below(*end)) return {};
    const SegmentTail::Batch batch = segment.tail.take(*end);
    if (!batch.payload.empty()) {
      LEAT_CHECK_OK(disk.write_now(files.data.fd(), batch.payload, batch.offset));
    }
    if (!batch.records.empty()) {
      const Bytes records = Bytes::copy_of(batch.records);
      LEAT_CHECK_OK(disk.write_now(files.side.fd(), records, segment.index_bytes));
      segment.index_bytes += records.size();
    }
    directory_->wrote();
    ++segment.writes;
    give_back_pieces(segment.tail.wrote(*end));
  }
}

// Forgets the bytes that the disk refused. Earlier bytes stay, and the segment accepts no more.
void PackedStore::lose_tail(const SegmentPtr& segment, const Status& why) {
  uint64_t bytes;
  bool idle;
  {
    std::lock_guard lock(mutex_);
    if (segment->removing) return;
    segment->cut_off = true;
    seal(segment);
    bytes = segment->data_bytes - segment->tail.written();
    idle = segment->filling.empty();
  }
  const uint64_t objects =
      forget_from(*segment, static_cast<uint32_t>(segment->tail.written() / kPageBytes));
  // A failed copy of compaction loses nothing and needs no room.
  if (objects > 0) directory_->lost_unwritten(objects, bytes, why);
  // Writers that still fill a slot need its memory; the last of them continues here.
  if (idle) give_back_pieces(segment->tail.abandon());
  remove_if_dead(segment);
  queue_settling(segment);
}

void PackedStore::give_back_pieces(uint64_t pieces) {
  if (pieces == 0) return;
  std::shared_ptr<SharedResult<bool>> freed;
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
  Result<> written = co_await self->write_out(segment, Extent::kWholePieces);
  static_cast<void>(written);  // lose_tail has logged it
}

void PackedStore::start_clock() {
  if (clock_runs_.load(std::memory_order_relaxed) || clock_runs_.exchange(true)) return;
  directory_->spawn(write_after_a_while(shared_from_this()));
}

Task<> PackedStore::write_after_a_while(std::shared_ptr<PackedStore> self) {
  CacheDirectory& directory = *self->directory_;
  Result<> slept =
      co_await sleep_for(Context::background().with_cancel(directory.stopping.get_token()), kIdle);
  if (!slept) co_return;  // close() flushes
  self->clock_runs_ = false;
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
