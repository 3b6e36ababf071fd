// SPDX-License-Identifier: Apache-2.0
// InputBuffer: the received and unprocessed bytes of a connection. Private to this module.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "base/check.h"

namespace leat {

class InputBuffer {
 public:
  bool empty() const { return begin_ == end_; }
  std::span<const std::byte> filled() const { return {memory_.get() + begin_, end_ - begin_}; }
  void consume(size_t bytes) {
    LEAT_CHECK(bytes <= end_ - begin_);
    begin_ += bytes;
    if (begin_ == end_) begin_ = end_ = 0;
  }

  // Returns memory for the next bytes; empty if `bytes_max` are buffered. Grows to that size by
  // doubling, so a connection with little traffic uses little memory.
  std::span<std::byte> prepare(size_t bytes_max) {
    if (end_ == capacity_ && begin_ > 0) {
      std::memmove(memory_.get(), memory_.get() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (end_ == capacity_ && capacity_ < bytes_max) grow(bytes_max);
    return {memory_.get() + end_, capacity_ - end_};
  }
  void commit(size_t bytes) { end_ += bytes; }

 private:
  static constexpr size_t kFirstBytes = 8 * 1024;

  void grow(size_t bytes_max) {
    capacity_ = std::min(bytes_max, std::max(kFirstBytes, 2 * capacity_));
    auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity_);
    if (end_ > 0) std::memcpy(larger.get(), memory_.get(), end_);
    memory_ = std::move(larger);
  }

  std::unique_ptr<std::byte[]> memory_;
  size_t capacity_ = 0;
  size_t begin_ = 0, end_ = 0;  // the filled range
};

}  // namespace leat
