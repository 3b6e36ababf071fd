// SPDX-License-Identifier: Apache-2.0
// Writing out what came in: a piece of the tail when it is full, all of it a second after it came,
// at a flush and when its segment is sealed. Payload before records, so that a record never points
// at what was not written.
#include <algorithm>

#include "cache/packed/packed_store.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr auto kIdle = std::chrono::seconds(1);
// Of one write: the disk works on it while others fill as much again.
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
  segment->write_queued = false;  // what is filled from here on has to ask again
  if (segment->write_all.exchange(false)) extent = Extent::kAll;
  std::optional<uint64_t> end = end_of_batch(*segment, extent);
  if (!end || !segment->tail.any_below(*end)) co_return Result<>();
  Result<FilePairPtr> files = files_to_fill(*segment);
  if (*files == nullptr) files = co_await directory_->descriptors.open(background, segment);
  Result<> done = files ? Result<>() : Error(files.error());
  // One thread for all of it: between two batches the disk would wait for whoever is being served.
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

// Where the next batch of a segment ends, between two places; nothing where none may be written.
// Somebody waits for memory as soon as there is a whole piece.
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

// What the disk did not take is forgotten; what it took before stays, and nothing follows it.
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
  // Of what compaction moved nothing is lost, and nobody wants room for it.
  if (objects > 0) directory_->lost_unwritten(objects, bytes, why);
  // Whoever is still filling a place needs its memory; the last of them has the rest done.
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
  static_cast<void>(written);  // told by lose_tail
}

void PackedStore::start_clock() {
  if (clock_runs_.load(std::memory_order_relaxed) || clock_runs_.exchange(true)) return;
  directory_->spawn(write_after_a_while(shared_from_this()));
}

Task<> PackedStore::write_after_a_while(std::shared_ptr<PackedStore> self) {
  CacheDirectory& directory = *self->directory_;
  Result<> slept =
      co_await sleep_for(Context::background().with_cancel(directory.stopping.get_token()), kIdle);
  if (!slept) co_return;  // a close flushes
  self->clock_runs_ = false;
  std::vector<SegmentPtr> open;
  {
    std::lock_guard lock(self->mutex_);
    for (const auto& [pool, segment] : self->open_) open.push_back(segment);
  }
  for (const SegmentPtr& segment : open) {
    segment->write_all = true;
    self->queue_writing(segment);  // each by itself: one may have much to write
  }
}

}  // namespace leat
