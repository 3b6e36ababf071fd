// SPDX-License-Identifier: Apache-2.0
// PackedStore: scrub and list. Both follow the segments' indexes.
#include <fmt/format.h>

#include <algorithm>

#include "cache/block_crc.h"
#include "cache/packed/packed_store.h"
#include "cache/upkeep/scrub_pace.h"

namespace leat {
namespace {

constexpr size_t kIndexBytesMax = size_t{1} << 30;

}  // namespace

std::optional<uint32_t> PackedStore::segment_from(uint64_t sequence) const {
  std::lock_guard lock(mutex_);
  if (sequence > UINT32_MAX) return std::nullopt;
  auto at = segments_.lower_bound(static_cast<uint32_t>(sequence));
  if (at == segments_.end()) return std::nullopt;
  return at->first;
}

// Returns the next live records of the index with payload in the segment's file.
std::vector<PackedStore::Moving> PackedStore::live_records(const Segment& segment,
                                                           SegmentIndex& index,
                                                           size_t limit) const {
  std::vector<Moving> live;
  while (live.size() < limit) {
    std::optional<SegmentRecord> record = index.next();
    if (!record) break;
    if (record->kind != SegmentRecord::Kind::kObject) continue;
    std::optional<Found> found = find(record->ref.id);
    if (!found || found->entry.segment != segment.sequence) continue;
    if (found->entry.page != record->offset / kPageBytes) continue;
    if (record->offset + found->entry.size > segment.tail.written()) continue;
    record->ref.pool = segment.pool->id;
    live.push_back({*std::move(record), found->entry});
  }
  return live;
}

// A damaged index is incomplete: objects without a record in it are dropped.
Task<> PackedStore::scrub(uint32_t sequence, ScrubPace& pace) {
  SegmentPtr found = segment(sequence);
  if (found == nullptr || found->removing) co_return;
  Result<FilePairPtr> files = co_await directory_->descriptors.open(Context::background(), found);
  if (!files) {
    if (!found->removing) directory_->not_verified(found->data_name(), files.error());
    co_return;  // later reads of its objects detect whether they are lost
  }
  Result<KnownIndex> index = co_await read_index(found);
  if (!index) {
    if (!found->removing) directory_->not_verified(found->side_name(), index.error());
    co_return;
  }
  const auto known = index->bytes.span().first(std::min<size_t>(index->bytes.size(), index->known));
  SegmentIndex records(known);
  for (;;) {
    // At most as many as fit in one piece.
    const std::vector<Moving> live = live_records(*found, records, kScrubPieceBytes / kPageBytes);
    if (live.empty()) break;
    if (!co_await compare_all(**files, live, pace)) co_return;
  }
  const bool whole =
      records.damaged().empty() && records.at() == index->known && header_is_whole(*found, known);
  if (!whole && !found->removing) co_await mend_index(found, *files);
}

// Returns false if the pass has to end, or the disk refuses to read.
Task<bool> PackedStore::compare_all(const FilePair& files, std::span<const Moving> live,
                                    ScrubPace& pace) {
  CacheDirectory* directory = directory_.get();
  for (size_t first = 0; first < live.size();) {
    const uint64_t begin = live[first].record.offset;
    size_t end = first + 1;
    auto fits = [&](const Moving& object) {
      return object.record.offset > begin &&
             object.record.offset + object.from.size <= begin + kScrubPieceBytes;
    };
    while (end < live.size() && fits(live[end])) ++end;
    const std::span<const Moving> together = live.subspan(first, end - first);
    const Result<uint64_t> bytes =
        co_await directory->blocking([&] { return Result<uint64_t>(compare(files, together)); });
    first = end;
    if (!bytes) co_return false;
    if (!co_await pace.read(*bytes)) co_return false;
    for (size_t i = 0; i < together.size(); ++i) pace.object_done();
  }
  co_return true;
}

// Same as FileStore::reads_else.
bool PackedStore::reads_else(const FilePair& files) const {
  Buffer page(kPageBytes);
  return directory_->disk->read_now(files.side.fd(), page.span(), 0).has_value();
}

// Compares all objects with one read; returns its bytes.
uint64_t PackedStore::compare(const FilePair& files, std::span<const Moving> objects) {
  const uint64_t begin = objects.front().record.offset;
  uint64_t end = begin;  // records are in the order in which the writes completed
  for (const Moving& object : objects) {
    end = std::max(end, object.record.offset + object.from.size);
  }
  Buffer buffer(align_up(end - begin, kPageBytes));
  Result<size_t> got = directory_->disk->read_now(files.data.fd(), buffer.span(), begin);
  if (!got && objects.size() > 1) {  // one bad place costs one object
    uint64_t read = 0;
    for (size_t i = 0; i < objects.size(); ++i) read += compare(files, objects.subspan(i, 1));
    return read;
  }
  if (!got && (!lost_by_read(got.error()) || !reads_else(files))) {
    directory_->not_verified(objects.front().record.ref.key, got.error());
    return 0;
  }
  for (const Moving& object : objects) {
    const uint64_t at = object.record.offset - begin;
    std::string why;
    if (!got) {
      why = got.error().to_string();
    } else if (at + object.from.size > *got) {
      why = "the segment is cut short";
    } else if (crc_of_crcs(block_crcs(buffer.span().subspan(at, object.from.size))) !=
               object.from.crc) {
      why = "its checksum differs on the disk";
    }
    if (why.empty()) continue;
    // If it is gone by now, another task has reported it.
    Error dropped = lost(object.record.ref.id, object.from, object.record.ref.key, why);
    static_cast<void>(dropped);
  }
  return got.value_or(0);
}

Result<std::optional<PackedStore::ListedUpTo>> PackedStore::list(
    ListedUpTo from, size_t limit, std::vector<CachedObject>& into) const {
  for (std::optional<uint32_t> sequence = segment_from(from.sequence); sequence;
       sequence = segment_from(uint64_t{*sequence} + 1)) {
    SegmentPtr found = segment(*sequence);
    if (found == nullptr || found->removing) continue;
    Result<Buffer> index =
        directory_->disk->read_file(directory_->path(found->side_name()), kIndexBytesMax);
    if (!index) continue;  // removed meanwhile or unreadable: it cannot be listed
    size_t at = SegmentHeader::kBytes;
    if (*sequence == from.sequence) at = std::max<size_t>(at, from.index_offset);
    SegmentIndex records(index->span(), at);
    for (;;) {
      if (into.size() >= limit) return ListedUpTo{*sequence, records.at()};
      std::vector<Moving> live = live_records(*found, records, limit - into.size());
      if (live.empty()) break;
      for (Moving& object : live) {
        into.push_back({.ref = std::move(object.record.ref),
                        .cached_bytes = object.from.size,
                        .packed = true,
                        .complete = true});
      }
    }
  }
  return std::nullopt;
}

}  // namespace leat
