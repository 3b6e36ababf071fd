// SPDX-License-Identifier: Apache-2.0
// OrderedWrites: how far a content that began empty is written from its start without a gap, and
// which bytes of that were taken for an upload. It finds changes of bytes that were taken: each
// write is recorded before and after it. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "model/byte_range.h"

namespace leat {

class OrderedWrites {
 public:
  // Ranges behind a gap that are remembered. Later ones count as not written.
  static constexpr size_t kRangesMax = 64;

  explicit OrderedWrites(bool is_empty) : open_(is_empty) {}

  // `done`: the write has ended.
  void note_write(uint64_t offset, uint64_t size, bool done);
  void note_size(uint64_t size);
  // From now on nothing is ready.
  void close() { open_ = false; }

  // Returns the end of what may be taken; 0 once closed, or after a change of taken bytes.
  uint64_t ready() const { return open_ && intact_ ? written_ : 0; }
  bool is_intact() const { return intact_; }
  // Takes the next `size` bytes. Returns nothing until they are written.
  std::optional<ByteRange> take(uint64_t size);
  // Takes the next bytes up to `end`, written or not, at most `size`.
  std::optional<ByteRange> take_rest(uint64_t size, uint64_t end);

 private:
  bool open_;
  bool intact_ = true;
  uint64_t taken_ = 0;
  uint64_t written_ = 0;
  std::map<uint64_t, uint64_t> behind_{};  // offset -> end, behind a gap
};

}  // namespace leat
