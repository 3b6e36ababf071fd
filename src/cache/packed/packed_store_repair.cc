// SPDX-License-Identifier: Apache-2.0
// PackedStore: repair of a segment's index that is damaged on disk. Objects known only in memory
// would be lost at the next start, so they are dropped now. Damaged records are replaced by one
// that names nothing.
#include <fmt/format.h>

#include <algorithm>

#include "cache/packed/packed_store.h"

namespace leat {
namespace {

constexpr size_t kIndexBytesMax = size_t{1} << 30;

}  // namespace

// Returns at least the bytes that are surely written, and perhaps more.
Task<Result<PackedStore::KnownIndex>> PackedStore::read_index(SegmentPtr segment) {
  uint64_t known = 0;
  {
    LEAT_CO_TRY(Semaphore::Permit permit, co_await segment->write_semaphore.acquire(
                                              Context::background(), 1, "a segment's writer"));
    known = segment->index_bytes;
  }
  CacheDirectory* directory = directory_.get();
  LEAT_CO_TRY(Buffer bytes, co_await directory->blocking([directory, &segment] {
    return directory->disk->read_file(directory->path(segment->side_name()), kIndexBytesMax);
  }));
  co_return KnownIndex{std::move(bytes), known};
}

bool PackedStore::header_is_whole(const Segment& segment, std::span<const std::byte> index) const {
  const auto header = SegmentHeader::decode(index);
  return header && header->sequence == segment.sequence && header->directory == directory_->uuid &&
         header->pool == segment.pool->id;
}

// Returns the objects of a segment that lie below `end` of its payload.
std::vector<PackedStore::LocatedObject> PackedStore::objects_in(const Segment& segment,
                                                                uint64_t end) const {
  std::vector<LocatedObject> placed;
  for (const Shard& part : shards_) {
    std::lock_guard lock(part.mutex);
    part.entries.for_each([&](const FileId& id, const Entry& entry) {
      if (entry.segment == segment.sequence && entry.extent().end() <= end) {
        placed.push_back({id, entry});
      }
    });
  }
  return placed;
}

// Order matters: the index is read after the list of objects, so each written object has its record
// in it.
Task<> PackedStore::repair_index(SegmentPtr segment, FilePairPtr files) {
  const std::vector<LocatedObject> placed = objects_in(*segment, segment->write_buffer.written());
  Result<KnownIndex> index = co_await read_index(segment);
  if (!index) {
    directory_->report_unverified(segment->side_name(), index.error());
    co_return;
  }
  const size_t there = std::min<size_t>(index->bytes.size(), index->known);
  const auto known = index->bytes.span().first(there);
  std::vector<uint32_t> pages;  // offsets in pages of objects with a whole record
  SegmentIndex records(known);
  while (auto record = records.next()) {
    if (record->kind != SegmentRecord::Kind::kObject) continue;
    pages.push_back(static_cast<uint32_t>(record->offset / kPageBytes));
  }
  std::ranges::sort(pages);
  std::vector<ByteRange> damaged = records.damaged();
  if (records.at() < index->known) {
    damaged.push_back({records.at(), index->known - records.at()});
  }
  const bool header_whole = header_is_whole(*segment, known);
  if (damaged.empty() && header_whole) co_return;  // it was being written
  if (segment->removing) co_return;
  const uint64_t bytes = total_bytes(damaged) + (header_whole ? 0 : SegmentHeader::kBytes);
  count_damaged_index(*segment, bytes);
  uint64_t dropped = 0;
  for (const auto& [id, entry] : placed) {
    if (!std::ranges::binary_search(pages, entry.page) && remove_entry(id, entry)) ++dropped;
  }
  if (dropped > 0) {
    directory_->report_corrupt(fmt::format("{} objects of {}", dropped, segment->data_name()),
                               "their records are damaged", dropped);
  }
  // The side descriptor is open read-write.
  Result<> mended = co_await directory_->blocking([&]() -> Result<> {
    const int fd = files->side.fd();
    if (!header_whole) LEAT_CHECK_OK(overwrite_header(*segment, fd));
    return overwrite_records(fd, segment->sequence, damaged);
  });
  if (!mended) directory_->report_unverified(segment->side_name(), mended.error());
}

Result<> PackedStore::overwrite_header(const Segment& segment, int fd) {
  const SegmentHeader header{segment.sequence, directory_->uuid, segment.pool->id};
  LEAT_CHECK_OK(directory_->disk->write_now(fd, Bytes::copy_of(header.encode()), 0));
  return directory_->disk->sync_now(fd);
}

Result<> PackedStore::overwrite_records(int fd, uint32_t sequence,
                                        const std::vector<ByteRange>& damaged) {
  for (const ByteRange& range : damaged) {
    if (!SegmentIndex::can_fill(range.size)) continue;
    const Bytes filler = Bytes::copy_of(SegmentIndex::filler(sequence, range.size));
    LEAT_CHECK_OK(directory_->disk->write_now(fd, filler, range.offset));
  }
  return directory_->disk->sync_now(fd);
}

void PackedStore::count_damaged_index(const Segment& segment, uint64_t bytes) {
  directory_->damaged_index_bytes += bytes;
  directory_->report_corrupt(fmt::format("{} bytes of records", bytes),
                             segment.side_name() + " is damaged there");
}

}  // namespace leat
