// SPDX-License-Identifier: Apache-2.0
#include "cache/packed/segment_write_buffer.h"

#include <algorithm>
#include <cstring>

#include "cache/capacity.h"
#include "model/byte_range.h"

namespace leat {

SegmentWriteBuffer::Reservation SegmentWriteBuffer::reserve(uint64_t offset, uint64_t more) {
  std::lock_guard lock(mutex_);
  // The previous reservation ends within the last piece, or at its end.
  Piece* first = pieces_.empty() ? nullptr : pieces_.back().get();
  const bool in_last = first != nullptr && offset < first_ + pieces_.size() * kPieceBytes;
  for (uint64_t i = 0; i < more; ++i) {
    auto piece = std::make_shared<Piece>();
    if (i == 0 && !in_last) first = piece.get();
    if (!pieces_.empty()) pieces_.back()->next = piece.get();
    pieces_.push_back(std::move(piece));
  }
  return {first, offset};
}

void SegmentWriteBuffer::fill(Reservation reservation, const Bytes& data) {
  auto slice = data.slices().begin();
  size_t used = 0;
  uint64_t at = reservation.offset % kPieceBytes, left = align_up(data.size(), kPageBytes);
  for (Piece* piece = reservation.first;; piece = piece->next, at = 0) {
    const uint64_t end = std::min(kPieceBytes, at + left);
    left -= end - at;
    while (at < end && slice != data.slices().end()) {
      size_t bytes = std::min<size_t>(end - at, slice->size - used);
      std::memcpy(piece->memory.data() + at, slice->data + used, bytes);
      at += bytes;
      used += bytes;
      if (used < slice->size) continue;
      ++slice;
      used = 0;
    }
    std::memset(piece->memory.data() + at, 0, end - at);
    if (left == 0) return;  // another thread may be setting `next`
  }
}

std::vector<SegmentWriteBuffer::PiecePtr> SegmentWriteBuffer::pieces_of(uint64_t offset,
                                                                        uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  if (offset < first_) return {};
  uint64_t from = (offset - first_) / kPieceBytes;
  uint64_t until = (offset + bytes - first_ + kPieceBytes - 1) / kPieceBytes;
  if (until > pieces_.size()) return {};
  return {pieces_.begin() + static_cast<ptrdiff_t>(from),
          pieces_.begin() + static_cast<ptrdiff_t>(until)};
}

bool SegmentWriteBuffer::read(uint64_t offset, std::span<std::byte> into) const {
  if (offset + into.size() <= written()) return false;
  std::vector<PiecePtr> pieces = pieces_of(offset, into.size());
  if (pieces.empty()) return false;
  uint64_t at = offset % kPieceBytes;
  for (const PiecePtr& piece : pieces) {
    const size_t bytes = std::min(into.size(), kPieceBytes - at);
    std::memcpy(into.data(), piece->memory.data() + at, bytes);
    into = into.subspan(bytes);
    at = 0;
  }
  return true;
}

void SegmentWriteBuffer::add_record(uint64_t end, std::string_view record) {
  std::lock_guard lock(mutex_);
  records_.push_back({end, record.size()});
  record_bytes_ += record;
}

bool SegmentWriteBuffer::any_below(uint64_t end) const {
  std::lock_guard lock(mutex_);
  return end > written_ ||
         std::ranges::any_of(records_, [end](const Record& record) { return record.end <= end; });
}

uint64_t SegmentWriteBuffer::batch_end(uint64_t most, uint64_t end) const {
  std::lock_guard lock(mutex_);
  const uint64_t wanted = written_ + most;
  if (end <= wanted) return end;
  uint64_t last = 0, first = end;
  for (const Record& record : records_) {
    if (record.end <= wanted) last = std::max(last, record.end);
    if (record.end > written_) first = std::min(first, record.end);
  }
  return last > written_ ? last : first;
}

SegmentWriteBuffer::Batch SegmentWriteBuffer::take_batch(uint64_t end) {
  std::lock_guard lock(mutex_);
  Batch batch;
  batch.offset = written_;
  for (uint64_t at = batch.offset; at < end && at >= first_;) {
    uint64_t number = (at - first_) / kPieceBytes, within = (at - first_) % kPieceBytes;
    if (number >= pieces_.size()) break;
    uint64_t bytes = std::min(end - at, kPieceBytes - within);
    const PiecePtr& piece = pieces_[number];
    batch.payload.append(Slice{piece, piece->memory.data() + within, bytes});
    at += bytes;
  }
  std::deque<Record> left;
  std::string left_bytes;
  size_t at = 0;
  for (const Record& record : records_) {
    const bool now = record.end <= end;
    (now ? batch.records : left_bytes).append(record_bytes_, at, record.bytes);
    if (!now) left.push_back(record);
    at += record.bytes;
  }
  records_.swap(left);
  record_bytes_.swap(left_bytes);
  return batch;
}

uint64_t SegmentWriteBuffer::mark_written(uint64_t end) {
  std::lock_guard lock(mutex_);
  written_.store(std::max(end, written_.load()), std::memory_order_release);
  return release_below(end);
}

uint64_t SegmentWriteBuffer::release_below(uint64_t end) {
  uint64_t released = 0;
  for (; !pieces_.empty() && first_ + kPieceBytes <= end; ++released) {
    pieces_.pop_front();
    first_ += kPieceBytes;
  }
  return released;
}

uint64_t SegmentWriteBuffer::discard() {
  std::lock_guard lock(mutex_);
  uint64_t released = pieces_.size();
  first_ += released * kPieceBytes;
  pieces_.clear();
  records_.clear();
  record_bytes_.clear();
  return released;
}

}  // namespace leat
