// SPDX-License-Identifier: Apache-2.0
// SegmentWriteBuffer: the part of a segment that is not in its files yet: payload in pieces of
// memory, and its records. PackedStore assigns the reservations. Each is filled once, by one
// writer, and read only after that. Thread-safe; its mutex is a leaf.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/adaptive_mutex.h"
#include "base/bytes.h"
#include "base/units.h"

namespace leat {

class SegmentWriteBuffer {
 public:
  static constexpr uint64_t kPieceBytes = 1 * kMiB;

  struct Piece {
    Buffer memory{kPieceBytes};
    Piece* next = nullptr;
  };
  // Memory reserved for one writer; valid until it is filled.
  struct Reservation {
    Piece* first = nullptr;
    uint64_t offset = 0;  // in the segment
  };

  // Everything below this offset is in the file, or lost.
  uint64_t written() const { return written_.load(std::memory_order_acquire); }
  // Reserves the bytes behind the previous reservation. Adds `more` pieces for it.
  Reservation reserve(uint64_t offset, uint64_t more);
  // Fills a reservation, with zeros up to a whole page. Takes no lock.
  static void fill(Reservation reservation, const Bytes& data);
  // Returns false if the bytes are in the file by now.
  bool read(uint64_t offset, std::span<std::byte> into) const;
  // Adds a record, which is written with the bytes below `end`, not before. Records keep their
  // order.
  void add_record(uint64_t end, std::string_view record);

  struct Batch {
    uint64_t offset = 0;
    Bytes payload;
    std::string records;
  };
  // Returns true if there is something to write below `end`.
  bool any_below(uint64_t end) const;
  // Returns the end of a reservation at most `most` beyond the written bytes, or of the first one;
  // at most `end`. All reservations below `end` are filled.
  uint64_t batch_end(uint64_t most, uint64_t end) const;
  // Returns the bytes below `end`; all reservations there are filled. The payload also stays in
  // memory until mark_written().
  Batch take_batch(uint64_t end);
  // The batch up to `end` is in the files. Returns the number of released pieces.
  uint64_t mark_written(uint64_t end);
  // Nothing more will be written. Returns the number of released pieces.
  uint64_t discard();

 private:
  struct Record {
    uint64_t end;
    size_t bytes;
  };
  using PiecePtr = std::shared_ptr<Piece>;

  std::vector<PiecePtr> pieces_of(uint64_t offset, uint64_t bytes) const;
  uint64_t release_below(uint64_t end);

  std::atomic<uint64_t> written_ = 0;
  mutable AdaptiveMutex mutex_;
  uint64_t first_ = 0;  // offset of the first piece; a multiple of kPieceBytes
  std::deque<PiecePtr> pieces_;
  std::deque<Record> records_;
  std::string record_bytes_;
};

}  // namespace leat
