// SPDX-License-Identifier: Apache-2.0
// PackedStore: read, verify, sync. An object is served without a check only after it matched its
// checksum once on a segment that was synced before.
#include <fmt/format.h>

#include <algorithm>

#include "cache/block_crc.h"
#include "cache/packed/packed_store.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter segment_readahead_bytes("leat_cache_segment_readahead_bytes_total",
                                "Bytes read ahead into the page cache around small objects", "",
                                Stability::kExperimental);

// Pause while a slot is being filled: a copy of at most 1 GiB, mostly a few KiB.
constexpr auto kFillPollInterval = std::chrono::milliseconds(1);

}  // namespace

std::optional<Bytes> PackedStore::try_read(const FileRef& ref, ByteRange range) {
  std::optional<Lookup> found = find(ref.id);
  if (!found || found->segment == nullptr) return std::nullopt;
  if (auto bytes = read_write_buffer(ref.id, *found, range, range.offset == 0)) return bytes;
  FilePairPtr files = found->segment->open_files();
  if (files == nullptr) return std::nullopt;
  // Until it is verified an object is checked as a whole: it is small, and so is its entry.
  ByteRange wanted = found->entry.verified ? range : ByteRange{0, found->entry.size};
  if (submit_segment_readahead(*found, *files, wanted)) return std::nullopt;
  Buffer buffer(wanted.size);
  uint64_t offset = found->entry.extent().offset + wanted.offset;
  if (!directory_->disk->try_read(files->data.fd(), buffer.span(), offset)) return std::nullopt;
  if (!matches(*found, buffer.span())) return std::nullopt;  // read() handles the mismatch
  note_read(ref.id, *found, range.offset == 0);
  return Bytes(std::move(buffer)).sub(range.offset - wanted.offset, range.size);
}

std::optional<SendfileRange> PackedStore::sendfile_range(const FileId& id, ByteRange range) {
  struct Held {
    SegmentPtr segment;
    FilePairPtr files;
  };
  const std::optional<Lookup> found = find(id);
  if (!found || found->segment == nullptr || !found->entry.verified) return std::nullopt;
  const uint64_t offset = found->entry.extent().offset + range.offset;
  if (range.end() > found->entry.size ||
      offset + range.size > found->segment->write_buffer.written()) {
    return std::nullopt;
  }
  FilePairPtr files = found->segment->open_files();
  if (files == nullptr) return std::nullopt;
  const int fd = files->data.fd();
  if (directory_->disk->is_cold(fd, offset, range.size)) return std::nullopt;
  note_read(id, *found, range.offset == 0);
  auto held = std::make_shared<const Held>(found->segment, std::move(files));
  return SendfileRange{std::move(held), fd, offset};
}

// Checked first, since a non-blocking read that misses makes the kernel read the object alone.
bool PackedStore::submit_segment_readahead(const Lookup& found, const FilePair& files,
                                           ByteRange wanted) {
  Disk& disk = *directory_->disk;
  const int fd = files.data.fd();
  const ByteRange object = found.entry.extent();
  if (!readahead_.applies_to(object)) return false;
  if (!disk.is_cold(fd, object.offset + wanted.offset, wanted.size)) return false;
  const std::optional<ByteRange> piece =
      readahead_.on_miss(found.segment->readahead, object, found.segment->write_buffer.written());
  if (!piece) return false;
  // A read or readahead of the previous piece may reach into this one.
  const uint64_t lead = std::min(piece->size / 4, object.offset - piece->offset);
  if (!disk.is_cold(fd, piece->offset + lead, piece->size - lead)) return false;
  const Result<uint64_t> submitted = disk.read_ahead(fd, piece->offset, piece->size);
  if (!submitted || *submitted == 0) return false;
  readahead_.on_readahead(found.segment->readahead, object);
  segment_readahead_bytes.add(piece->size - object.size);
  return true;
}

std::optional<FileExtent> PackedStore::file_extent(const FileId& id) const {
  const std::optional<Lookup> found = find(id);
  if (!found || found->segment == nullptr) return std::nullopt;
  const ByteRange extent = found->entry.extent();
  if (extent.end() > found->segment->write_buffer.written()) return std::nullopt;
  return FileExtent{found->segment, extent.offset, extent.size};
}

Task<Result<Bytes>> PackedStore::read(Context context, FileRefPtr ref, ByteRange range) {
  co_return co_await read_object(context, ref, range, range.offset == 0);
}

Task<Result<Bytes>> PackedStore::read_object(Context context, FileRefPtr ref, ByteRange range,
                                             bool begins) {
  std::optional<Lookup> found = find(ref->id);
  if (!found) co_return not_cached(ref->key);
  const Entry entry = found->entry;
  if (found->segment == nullptr) {
    remove_entry(ref->id, entry);
    co_return not_cached(ref->key);
  }
  if (auto bytes = read_write_buffer(ref->id, *found, range, begins)) co_return *bytes;
  Result<FilePairPtr> files = co_await directory_->descriptors.open(context, found->segment);
  if (!files && !lost_by_open(files.error())) co_return not_readable(ref->key, files.error());
  if (!files) co_return drop_corrupt(ref->id, entry, ref->key, files.error().to_string());
  ByteRange wanted = entry.verified ? range : ByteRange{0, entry.size};
  Buffer buffer(wanted.size);
  uint64_t offset = entry.extent().offset + wanted.offset;
  Result<size_t> got =
      co_await directory_->disk->read(context, (*files)->data.fd(), buffer.span(), offset);
  if (!got && !lost_by_read(got.error())) co_return not_readable(ref->key, got.error());
  if (!got) co_return drop_corrupt(ref->id, entry, ref->key, got.error().to_string());
  if (*got != wanted.size)
    co_return drop_corrupt(ref->id, entry, ref->key, "the segment is cut short");
  if (!matches(*found, buffer.span())) {
    co_return drop_corrupt(ref->id, entry, ref->key, "its checksum differs");
  }
  note_read(ref->id, *found, begins);
  co_return Bytes(std::move(buffer)).sub(range.offset - wanted.offset, range.size);
}

// Serves unwritten bytes from memory, where nothing can damage them.
std::optional<Bytes> PackedStore::read_write_buffer(const FileId& id, const Lookup& found,
                                                    ByteRange range, bool begins) {
  const uint64_t offset = found.entry.extent().offset + range.offset;
  if (offset + range.size <= found.segment->write_buffer.written()) return std::nullopt;
  Buffer buffer(range.size);
  if (!found.segment->write_buffer.read(offset, buffer.span())) return std::nullopt;
  note_read(id, found, begins);
  return Bytes(std::move(buffer));
}

bool PackedStore::matches(const Lookup& found, std::span<const std::byte> whole) const {
  return found.entry.verified || crc_of_crcs(block_crcs(whole)) == found.entry.crc;
}

// Records a read of correct bytes. Before a sync they may still be lost and are compared each time,
// so a read requests a sync.
void PackedStore::note_read(const FileId& id, const Lookup& found, bool begins) {
  if (begins) {
    found.segment->last_pass = found.segment->pool->note_pass(id);
    readahead_.on_read(found.segment->readahead, found.entry.extent());
  }
  uint64_t end = found.entry.extent().end();
  bool durable = end <= found.segment->synced_bytes;
  {
    Shard& part = shard(id);
    std::lock_guard lock(part.mutex);
    Entry* now = part.entries.find(id);
    if (now == nullptr || !now->same_location(found.entry)) return;
    now->verified = now->verified || durable;
    now->read = now->read || begins;
  }
  // Unwritten bytes are synced after their write, if they are still read then.
  if (!durable && end <= found.segment->write_buffer.written()) queue_sync(found.segment);
}

Error PackedStore::drop_corrupt(const FileId& id, const Entry& entry, const std::string& key,
                                const std::string& why) {
  if (remove_entry(id, entry)) {
    directory_->report_corrupt(key,
                               fmt::format("{} at {}: {}", Segment::name(entry.segment, ".data"),
                                           entry.extent().offset, why));
    directory_->notify_damage(id);
  }
  return not_cached(key);
}

void PackedStore::queue_sync(const SegmentPtr& segment) {
  if (segment->sync_queued.exchange(true)) return;
  directory_->spawn(sync_in_background(shared_from_this(), segment));
}

Task<> PackedStore::sync_in_background(std::shared_ptr<PackedStore> self, SegmentPtr segment) {
  Result<> settled = co_await self->sync_segment(segment);
  if (!settled) {
    log::warning("cache {}: {}", self->directory_->options.directory, settled.error().to_string());
  }
}

Task<Result<>> PackedStore::sync_segment(SegmentPtr segment) {
  LEAT_CO_TRY(Semaphore::Permit permit, co_await segment->sync_semaphore.acquire(
                                            Context::background(), 1, "a sync of a cache segment"));
  segment->sync_queued = false;  // later writes must queue again
  LEAT_CO_CHECK_OK(co_await write_out(segment, WriteExtent::kAll));
  uint64_t writes = segment->writes, written = segment->write_buffer.written();
  bool finish;
  {
    std::lock_guard lock(mutex_);
    if (segment->removing || segment->sync_failed) co_return Result<>();
    const bool due =
        segment->records_due > 0;  // read first: later the records are in the write buffer
    // A tombstone has no payload.
    const bool all_out =
        written == segment->data_bytes && !segment->write_buffer.any_below(written);
    const bool all_written = segment->write_failed || all_out;
    finish =
        segment->sealed && segment->filling.empty() && !segment->whole_pages && all_written && !due;
  }
  // Its last piece is rarely full.
  if (finish) release_pieces(segment->write_buffer.discard());
  if (segment->synced_writes == writes && !finish) co_return Result<>();
  const Context background = Context::background();
  Result<FilePairPtr> files = co_await directory_->descriptors.open(background, segment);
  if (!files) co_return Error(files.error().with_context("cannot sync a cache segment"));
  if (finish) LEAT_CO_CHECK_OK(co_await finish_file(segment, *files));
  Result<> synced = co_await directory_->disk->sync(background, (*files)->data.fd());
  if (!synced) {
    fail_segment(segment, synced.error());
    co_return Error(synced.error().with_context("cannot sync " + segment->data_name()));
  }
  synced = co_await directory_->disk->sync(background, (*files)->side.fd());
  if (!synced) {
    // The kernel marked the pages clean: another sync would succeed and prove nothing.
    fail_segment(segment, synced.error());
    co_return Error(synced.error().with_context("cannot sync " + segment->side_name()));
  }

  segment->synced_writes = writes;
  std::lock_guard lock(mutex_);
  segment->whole_pages = segment->whole_pages || finish;
  if (finish) segment->open_for_writing = nullptr;
  segment->synced_bytes = std::max(segment->synced_bytes.load(), written);
  co_return Result<>();
}

// Extends .data to whole pages, so that the kernel can map the last one, and removes what was cut
// off.
Task<Result<>> PackedStore::finish_file(SegmentPtr segment, FilePairPtr files) {
  const uint64_t bytes = segment->write_buffer.written();
  const std::shared_ptr<Disk> disk = directory_->disk;
  LEAT_CO_CHECK_OK(co_await directory_->blocking(
      [disk, &files, bytes] { return disk->truncate(files->data.fd(), bytes); }));
  uint64_t cut = 0;
  {
    std::lock_guard lock(mutex_);
    cut = segment->data_bytes - bytes;
    segment->data_bytes = bytes;
  }
  segment->charge.shrink(cut);
  if (segment->write_failed) {
    // A partly written batch must not look like damage to the next start.
    LEAT_CO_CHECK_OK(co_await directory_->blocking([disk, &files, &segment] {
      return disk->truncate(files->side.fd(), segment->index_bytes);
    }));
  }
  co_return Result<>();
}

// The kernel has discarded the pages that it could not write; no part of the segment is reliable.
void PackedStore::fail_segment(const SegmentPtr& segment, const Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (segment->removing || segment->sync_failed.exchange(true)) return;
    seal(segment);
  }
  directory_->report_corrupt("segment " + segment->data_name(), why.to_string());
  remove_entries_from(*segment, 0);
  remove_if_dead(segment);  // or its last writer does
}

// Syncs everything that had a slot when the call began. Bytes behind a slot that is being filled
// cannot be written yet; filling waits for nothing. Returns an error if any of it was lost
// meanwhile, by any task.
Task<Result<>> PackedStore::sync_to_end(SegmentPtr segment) {
  uint64_t end;
  bool was_over;
  {
    std::lock_guard lock(mutex_);
    end = segment->data_bytes;
    was_over = segment->sync_failed || segment->write_failed;
  }
  for (;;) {
    LEAT_CO_CHECK_OK(co_await sync_segment(segment));
    if (segment->removing || was_over) co_return Result<>();
    if (segment->sync_failed || (segment->write_failed && segment->write_buffer.written() < end)) {
      co_return error(StatusCode::kUnavailable,
                      "the disk did not accept all of " + segment->data_name());
    }
    if (segment->write_failed || segment->synced_bytes >= end) co_return Result<>();
    Result<> slept = co_await sleep_for(Context::background(), kFillPollInterval);
    static_cast<void>(slept);
  }
}

Task<Result<>> PackedStore::flush() {
  // A dropped object has a tombstone, or a segment that is being removed. An object that was moved
  // from there and dropped meanwhile gets its tombstone after that, hence two rounds.
  for (int i = 0; i < 2; ++i) {
    co_await tombstone_tasks_->idle();
    co_await wait_for_removals(UINT32_MAX);
  }
  std::vector<SegmentPtr> segments;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [sequence, segment] : segments_) segments.push_back(segment);
  }
  Result<> first_failure;
  for (const SegmentPtr& segment : segments) {
    Result<> settled = co_await sync_to_end(segment);
    if (!settled && first_failure) first_failure = settled;
  }
  Result<> synced = co_await sync_names();
  if (!synced && first_failure) first_failure = synced;
  co_return first_failure;
}

}  // namespace leat
