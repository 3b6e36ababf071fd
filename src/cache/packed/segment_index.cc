// SPDX-License-Identifier: Apache-2.0
#include "cache/packed/segment_index.h"

#include <algorithm>
#include <cstring>

namespace leat {
namespace {

// Header and records are a multiple of this.
constexpr size_t kAlignment = 8;

}  // namespace

SegmentIndex::SegmentIndex(std::span<const std::byte> bytes, size_t at)
    : bytes_(bytes), at_(std::min(at, bytes.size())) {}

std::optional<SegmentRecord> SegmentIndex::next() {
  for (size_t from = at_; from < bytes_.size(); from += kAlignment) {
    if (!SegmentRecord::begins(bytes_.subspan(from))) continue;
    size_t end = from;
    auto record = SegmentRecord::decode(bytes_.subspan(from), &end);
    if (!record) continue;
    if (from > at_) damaged_.push_back({at_, from - at_});
    at_ = end;
    return record;
  }
  return std::nullopt;
}

bool SegmentIndex::can_fill(uint64_t bytes) {
  return bytes % kAlignment == 0 && bytes >= SegmentRecord::encoded_bytes({}, {}, 0);
}

std::string SegmentIndex::filler(uint32_t sequence, uint64_t bytes) {
  SegmentRecord tombstone;
  tombstone.kind = SegmentRecord::Kind::kTombstone;
  tombstone.ref.size = sequence;
  tombstone.ref.key.assign(bytes - SegmentRecord::encoded_bytes({}, {}, 0), '\0');
  return tombstone.encode();
}

uint64_t total_bytes(const std::vector<ByteRange>& ranges) {
  uint64_t bytes = 0;
  for (const ByteRange& range : ranges) bytes += range.size;
  return bytes;
}

}  // namespace leat
