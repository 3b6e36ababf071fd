// SPDX-License-Identifier: Apache-2.0
#include "vfs/writing/staged/ordered_writes.h"

#include <algorithm>

namespace leat {

void OrderedWrites::note_write(uint64_t offset, uint64_t size, bool done) {
  if (size == 0) return;
  if (offset < taken_) intact_ = false;
  if (!done || !open_) return;
  const uint64_t end = offset + size;
  if (offset > written_) {
    if (behind_.size() < kRangesMax) behind_[offset] = std::max(behind_[offset], end);
    return;
  }
  written_ = std::max(written_, end);
  while (!behind_.empty() && behind_.begin()->first <= written_) {
    written_ = std::max(written_, behind_.begin()->second);
    behind_.erase(behind_.begin());
  }
}

void OrderedWrites::note_size(uint64_t size) {
  if (size < taken_) intact_ = false;
  // All of an empty content is known. One that was closed with bytes of an upload stays closed.
  if (size == 0 && taken_ == 0 && written_ == 0) open_ = true;
  if (!open_) return;
  written_ = std::min(written_, size);
  behind_.erase(behind_.lower_bound(size), behind_.end());
  for (auto& [offset, end] : behind_) end = std::min(end, size);
}

std::optional<ByteRange> OrderedWrites::take(uint64_t size) {
  if (ready() < taken_ + size) return std::nullopt;
  const ByteRange range{taken_, size};
  taken_ += size;
  return range;
}

std::optional<ByteRange> OrderedWrites::take_rest(uint64_t size, uint64_t end) {
  if (taken_ >= end) return std::nullopt;
  const ByteRange range{taken_, std::min(size, end - taken_)};
  taken_ += range.size;
  return range;
}

}  // namespace leat
