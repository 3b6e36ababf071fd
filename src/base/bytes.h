// SPDX-License-Identifier: Apache-2.0
// Buffer: memory that is filled once. Bytes: an immutable, shared view over one or several pieces
// of such memory. A read that spans fetch units travels from the store to the frontend without a
// copy.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace leat {

// Page-aligned writable memory, not zeroed. Move-only; freeze() turns it into Bytes.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size);

  size_t size() const { return size_; }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::span<std::byte> span() { return {data(), size_}; }
  std::span<const std::byte> span() const { return {data(), size_}; }
  // Drops the bytes after `size`, which may not be larger than size().
  void truncate(size_t size) {
    LEAT_CHECK(size <= size_);
    size_ = size;
  }

 private:
  friend class Bytes;
  std::shared_ptr<std::byte> data_;
  size_t size_ = 0;
};

// One contiguous piece, and the owner that keeps it alive.
struct Slice {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  size_t size = 0;

  std::span<const std::byte> span() const { return {data, size}; }
};

// Cheap to copy. As thread-safe as any immutable value.
class Bytes {
 public:
  Bytes() = default;
  Bytes(Buffer&& buffer);  // NOLINT(google-explicit-constructor): a frozen buffer is bytes
  static Bytes copy_of(std::string_view text);
  static Bytes of(std::string text);  // without a copy

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::vector<Slice>& slices() const { return slices_; }

  void append(Slice slice);
  void append(const Bytes& more);
  // Returns the part from `offset`, at most `size` long. `offset` may not be past the end.
  Bytes sub(size_t offset, size_t size) const;

  // Copies everything to `to`, which must be at least size() long.
  void copy_to(std::span<std::byte> to) const;
  std::string to_string() const;
  // Returns the pieces as an I/O vector for writev and fuse_reply_iov. Valid while this object
  // lives.
  std::vector<iovec> to_iovec() const;

 private:
  std::vector<Slice> slices_;
  size_t size_ = 0;
};

}  // namespace leat
