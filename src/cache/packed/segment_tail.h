// SPDX-License-Identifier: Apache-2.0
// SegmentTail: what of a segment is not in its files yet: payload in pieces of memory, and the
// records that belong to it. Places are given out by others; each is filled once, by one, and read
// only after that. Thread-safe; its mutex is a leaf.
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

class SegmentTail {
 public:
  static constexpr uint64_t kPieceBytes = 1 * kMiB;

  struct Piece {
    Buffer memory{kPieceBytes};
    Piece* next = nullptr;
  };
  // A place in memory that nobody else has; good until it is filled.
  struct Place {
    Piece* first = nullptr;
    uint64_t offset = 0;  // in the segment
  };

  // Everything below this is in the file, or nowhere.
  uint64_t written() const { return written_.load(std::memory_order_acquire); }
  // The next place, which begins where the one before ended. `more` pieces are added for it.
  Place add_place(uint64_t offset, uint64_t more);
  // Fills a place, with zeros up to a whole page. Takes no lock.
  static void fill(Place place, const Bytes& data);
  // False where it is in the file by now.
  bool copy_out(uint64_t offset, std::span<std::byte> into) const;
  // A record is written with what lies below `end`, not before. In the order of their coming.
  void add_record(uint64_t end, std::string_view record);

  struct Batch {
    uint64_t offset = 0;
    Bytes payload;
    std::string records;
  };
  // Whether there is something to be written below `end`.
  bool any_below(uint64_t end) const;
  // The end of a place that is at most `most` beyond what is written, or of the first one; at most
  // `end`, below which all places are filled.
  uint64_t end_near(uint64_t most, uint64_t end) const;
  // What lies below `end`; all places there are filled. The payload stays here, too, until it is
  // written.
  Batch take(uint64_t end);
  // The batch that ends there is in the files. Returns the pieces that went.
  uint64_t wrote(uint64_t end);
  // Nothing more will be written. Returns the pieces that went.
  uint64_t abandon();

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
  uint64_t first_ = 0;  // offset of the first piece; a whole number of pieces
  std::deque<PiecePtr> pieces_;
  std::deque<Record> records_;
  std::string record_bytes_;
};

}  // namespace leat
