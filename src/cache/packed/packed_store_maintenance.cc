// SPDX-License-Identifier: Apache-2.0
// PackedStore: scrub and list. Both follow the segments' indexes.
#include <fmt/format.h>

#include <algorithm>

#include "cache/block_crc.h"
#include "cache/packed/packed_store.h"
#include "cache/scrub_limiter.h"

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
std::vector<PackedStore::LiveRecord> PackedStore::live_records(const Segment& segment,
                                                               SegmentIndex& index,
                                                               size_t limit) const {
  std::vector<LiveRecord> live;
  while (live.size() < limit) {
    std::optional<SegmentRecord> record = index.next();
    if (!record) break;
    if (record->kind != SegmentRecord::Kind::kObject) continue;
    std::optional<Lookup> found = find(record->ref.id);
    if (!found || found->entry.segment != segment.sequence) continue;
    if (found->entry.page != record->offset / kPageBytes) continue;
    if (record->offset + found->entry.size > segment.write_buffer.written()) continue;
    record->ref.pool = segment.pool->id;
    live.push_back({*std::move(record), found->entry});
  }
  return live;
}

// A damaged index is incomplete: objects without a record in it are dropped.
Task<> PackedStore::scrub(uint32_t sequence, ScrubLimiter& limiter) {
  SegmentPtr found = segment(sequence);
  if (found == nullptr || found->removing) co_return;
  Result<FilePairPtr> files = co_await directory_->descriptors.open(Context::background(), found);
  if (!files) {
    if (!found->removing) directory_->report_unverified(found->data_name(), files.error());
    co_return;  // later reads of its objects detect whether they are lost
  }
  Result<KnownIndex> index = co_await read_index(found);
  if (!index) {
    if (!found->removing) directory_->report_unverified(found->side_name(), index.error());
    co_return;
  }
  const auto known = index->bytes.span().first(std::min<size_t>(index->bytes.size(), index->known));
  SegmentIndex records(known);
  for (;;) {
    // At most as many as fit in one piece.
    const std::vector<LiveRecord> live =
        live_records(*found, records, kScrubPieceBytes / kPageBytes);
    if (live.empty()) break;
    if (!co_await compare_all(**files, live, limiter)) co_return;
  }
  const bool whole =
      records.damaged().empty() && records.at() == index->known && header_is_whole(*found, known);
  if (!whole && !found->removing) co_await repair_index(found, *files);
}

// Returns false if the pass has to end, or the disk fails.
Task<bool> PackedStore::compare_all(const FilePair& files, std::span<const LiveRecord> live,
                                    ScrubLimiter& limiter) {
  CacheDirectory* directory = directory_.get();
  for (size_t first = 0; first < live.size();) {
    const uint64_t begin = live[first].record.offset;
    size_t end = first + 1;
    auto fits = [&](const LiveRecord& object) {
      return object.record.offset > begin &&
             object.record.offset + object.from.size <= begin + kScrubPieceBytes;
    };
    while (end < live.size() && fits(live[end])) ++end;
    const std::span<const LiveRecord> together = live.subspan(first, end - first);
    const Result<uint64_t> bytes =
        co_await directory->blocking([&] { return Result<uint64_t>(compare(files, together)); });
    first = end;
    if (!bytes) co_return false;
    if (!co_await limiter.read(*bytes)) co_return false;
    for (size_t i = 0; i < together.size(); ++i) limiter.object_done();
  }
  co_return true;
}

// Same as FileStore::can_read.
bool PackedStore::can_read(const FilePair& files) const {
  Buffer page(kPageBytes);
  return directory_->disk->read_now(files.side.fd(), page.span(), 0).has_value();
}

// Compares all objects with one read; returns its bytes.
uint64_t PackedStore::compare(const FilePair& files, std::span<const LiveRecord> objects) {
  const uint64_t begin = objects.front().record.offset;
  uint64_t end = begin;  // records are in the order in which the writes completed
  for (const LiveRecord& object : objects) {
    end = std::max(end, object.record.offset + object.from.size);
  }
  Buffer buffer(align_up(end - begin, kPageBytes));
  Result<size_t> got = directory_->disk->read_now(files.data.fd(), buffer.span(), begin);
  if (!got && objects.size() > 1) {  // one bad sector costs one object
    uint64_t read = 0;
    for (size_t i = 0; i < objects.size(); ++i) read += compare(files, objects.subspan(i, 1));
    return read;
  }
  if (!got && (!lost_by_read(got.error()) || !can_read(files))) {
    directory_->report_unverified(objects.front().record.ref.key, got.error());
    return 0;
  }
  for (const LiveRecord& object : objects) {
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
    // If it is removed by now, another task has reported it.
    Error dropped = drop_corrupt(object.record.ref.id, object.from, object.record.ref.key, why);
    static_cast<void>(dropped);
  }
  return got.value_or(0);
}

Result<std::optional<PackedStore::ListPosition>> PackedStore::list(
    ListPosition from, size_t limit, std::vector<CachedObject>& into) const {
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
      if (into.size() >= limit) return ListPosition{*sequence, records.at()};
      std::vector<LiveRecord> live = live_records(*found, records, limit - into.size());
      if (live.empty()) break;
      for (LiveRecord& object : live) {
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
