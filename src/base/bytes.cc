// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <algorithm>
#include <cstring>

#include "base/buffer_pool.h"

namespace leat {

Buffer::Buffer(size_t size) : size_(size) {
  if (size == 0) return;
  data_ = std::shared_ptr<std::byte>(allocate_buffer(size),
                                     [size](std::byte* memory) { free_buffer(memory, size); });
}

Bytes::Bytes(Buffer&& buffer) {
  size_t size = buffer.size_;
  const std::byte* data = buffer.data();
  append(Slice{std::move(buffer.data_), data, size});
  buffer.size_ = 0;
}

Bytes Bytes::of(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  Bytes bytes;
  bytes.append(Slice{owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size()});
  return bytes;
}

Bytes Bytes::copy_of(std::string_view text) {
  Buffer buffer(text.size());
  if (!text.empty()) std::memcpy(buffer.data(), text.data(), text.size());
  return Bytes(std::move(buffer));
}

void Bytes::append(Slice slice) {
  if (slice.size == 0) return;
  size_ += slice.size;
  slices_.push_back(std::move(slice));
}

void Bytes::append(const Bytes& more) {
  slices_.insert(slices_.end(), more.slices_.begin(), more.slices_.end());
  size_ += more.size_;
}

Bytes Bytes::sub(size_t offset, size_t size) const {
  LEAT_CHECK(offset <= size_);
  size = std::min(size, size_ - offset);
  Bytes part;
  for (const Slice& slice : slices_) {
    if (size == 0) break;
    if (offset >= slice.size) {
      offset -= slice.size;
      continue;
    }
    size_t take = std::min(size, slice.size - offset);
    part.append(Slice{slice.owner, slice.data + offset, take});
    size -= take;
    offset = 0;
  }
  return part;
}

void Bytes::copy_to(std::span<std::byte> to) const {
  LEAT_CHECK(to.size() >= size_);
  size_t at = 0;
  for (const Slice& slice : slices_) {
    std::memcpy(to.data() + at, slice.data, slice.size);
    at += slice.size;
  }
}

std::string Bytes::to_string() const {
  std::string text;
  text.reserve(size_);
  for (const Slice& slice : slices_) {
    text.append(reinterpret_cast<const char*>(slice.data), slice.size);
  }
  return text;
}

std::vector<iovec> Bytes::to_iovec() const {
  std::vector<iovec> vector;
  vector.reserve(slices_.size());
  for (const Slice& slice : slices_) {
    vector.push_back({const_cast<std::byte*>(slice.data), slice.size});
  }
  return vector;
}

}  // namespace leat
