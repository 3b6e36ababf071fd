// SPDX-License-Identifier: Apache-2.0
// IoVector: memory that is written or filled in order, and the progress. Private to this module.
#pragma once

#include <sys/uio.h>

#include <climits>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace leat {

class IoVector {
 public:
  IoVector() = default;
  explicit IoVector(std::string_view text) { add(text); }

  void add(const void* data, size_t size) {
    if (size == 0) return;
    list_.push_back({const_cast<void*>(data), size});
    left_ += size;
  }
  void add(std::string_view text) { add(text.data(), text.size()); }
  void add(const Bytes& bytes) {
    list_.reserve(list_.size() + bytes.slices().size());
    for (const Slice& slice : bytes.slices()) add(slice.data, slice.size);
  }

  // Remaining bytes.
  size_t left() const { return left_; }
  // Returns as many pieces as one system call takes.
  std::span<iovec> next() {
    return std::span(list_).subspan(first_, std::min<size_t>(list_.size() - first_, IOV_MAX));
  }
  void consume(size_t bytes) {
    left_ -= bytes;
    while (bytes > 0) {
      iovec& piece = list_[first_];
      const size_t taken = std::min(bytes, piece.iov_len);
      piece.iov_base = static_cast<std::byte*>(piece.iov_base) + taken;
      piece.iov_len -= taken;
      bytes -= taken;
      if (piece.iov_len == 0) ++first_;
    }
  }

 private:
  std::vector<iovec> list_;
  size_t first_ = 0;
  size_t left_ = 0;
};

}  // namespace leat
