// SPDX-License-Identifier: Apache-2.0
// Segments go first in, first out; what was read since it was written moves on to the newest one.
#include <fmt/format.h>

#include "cache/block_crc.h"
#include "cache/packed_store.h"

namespace leat {
namespace {

// At most this share of a segment's payload moves on, so that each eviction frees three quarters.
constexpr uint64_t kMovedShare = 4;
constexpr size_t kIndexBytesMax = size_t{1} << 30;

}  // namespace

std::optional<int64_t> PackedStore::oldest_birth() const {
  std::lock_guard lock(mutex_);
  for (const auto& [sequence, segment] : segments_) {
    if (segment->sealed && !segment->removing && segment->filling.empty()) return segment->birth_ns;
  }
  return std::nullopt;
}

// The one to go, its removal begun. The one being filled goes only where there is no other.
PackedStore::SegmentPtr PackedStore::take_oldest() {
  std::lock_guard lock(mutex_);
  for (const auto& [sequence, segment] : segments_) {
    if (segment->removing || !segment->filling.empty() || segment->data_bytes == 0) continue;
    if (!segment->sealed && segment != active_) continue;
    segment->removing = segment->sealed = true;
    if (segment == active_) active_ = nullptr;
    return segment;
  }
  return nullptr;
}

Task<uint64_t> PackedStore::evict_one() {
  SegmentPtr segment = take_oldest();
  if (segment == nullptr) co_return 0;
  uint64_t bytes = segment->charge.bytes();
  uint64_t moved = co_await move_read_objects(segment);
  forget_all_of(segment->sequence);
  co_await remove(segment);
  uint64_t freed = bytes > moved ? bytes - moved : 0;
  directory_->evicted(freed);
  co_return freed;
}

Task<std::vector<PackedStore::Moving>> PackedStore::worth_moving(SegmentPtr segment) {
  CacheDirectory* directory = directory_.get();
  std::vector<Moving> moving;
  Result<Buffer> index = co_await directory->executor.blocking([directory, &segment] {
    return directory->disk->read_file(directory->path(segment->side_name()), kIndexBytesMax);
  });
  if (!index) co_return moving;  // nothing moves; the objects will be fetched again
  uint64_t budget = segment->data_bytes / kMovedShare;
  size_t at = SegmentHeader::kBytes;
  while (at < index->size()) {
    auto record = SegmentRecord::decode(index->span().subspan(at), &at);
    if (!record) break;
    if (record->kind != SegmentRecord::Kind::kObject) continue;
    std::optional<Found> found = find(record->ref.id);
    if (!found) continue;
    const Entry& entry = found->entry;
    bool current = entry.segment == segment->sequence && entry.page == record->offset / kPageBytes;
    if (!current || !entry.read) continue;
    uint64_t bytes = align_up(entry.size, kPageBytes);
    if (bytes > budget) break;
    budget -= bytes;
    moving.push_back({*std::move(record), entry});
  }
  co_return moving;
}

Task<uint64_t> PackedStore::move_read_objects(SegmentPtr segment) {
  std::vector<Moving> moving = co_await worth_moving(segment);
  uint64_t moved = 0;
  for (Moving& object : moving) {
    auto ref = std::make_shared<const FileRef>(std::move(object.record.ref));
    ByteRange whole{0, object.from.size};
    Result<Bytes> bytes = co_await read(Context::background(), ref, whole);
    if (!bytes) continue;
    Result<> stored = co_await store(Context::background(), ref, *bytes, object.from);
    if (!stored) break;  // no room: the rest goes
    moved += align_up(object.from.size, kPageBytes);
  }
  co_return moved;
}

void PackedStore::forget_all_of(uint32_t sequence) {
  for (Shard& part : shards_) {
    std::lock_guard lock(part.mutex);
    part.entries.erase_if([sequence](const Entry& entry) { return entry.segment == sequence; });
  }
}

}  // namespace leat
