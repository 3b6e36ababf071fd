// SPDX-License-Identifier: Apache-2.0
// RecordWriter, RecordReader: fixed-width little-endian fields of the on-disk records. The reader
// never reads past its end: a field that is not there makes ok() false and reads as zero.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/id128.h"

namespace leat {

static_assert(std::endian::native == std::endian::little, "the records are copied as they lie");

class RecordWriter {
 public:
  void reserve(size_t bytes) { bytes_.reserve(bytes); }
  template <class T>
    requires std::is_integral_v<T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const Id128& id) {
    bytes_.append(reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size());
  }
  void put_text(std::string_view text) { bytes_.append(text); }
  void pad_to(size_t size) { bytes_.resize(size, '\0'); }
  template <class T>
  void overwrite(size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof value);
  }

  size_t size() const { return bytes_.size(); }
  std::span<const std::byte> span() const { return std::as_bytes(std::span(bytes_)); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
    requires std::is_integral_v<T>
  T get() {
    T value{};
    if (const std::byte* from = advance(sizeof value)) std::memcpy(&value, from, sizeof value);
    return value;
  }
  Id128 get_id() {
    Id128 id;
    if (const std::byte* from = advance(id.bytes.size())) {
      std::memcpy(id.bytes.data(), from, id.bytes.size());
    }
    return id;
  }
  std::string get_text(size_t size) {
    const std::byte* from = advance(size);
    return from == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(from), size);
  }
  bool ok() const { return ok_; }

 private:
  const std::byte* advance(size_t size) {
    if (!ok_ || bytes_.size() - at_ < size) {
      ok_ = false;
      return nullptr;
    }
    const std::byte* from = bytes_.data() + at_;
    at_ += size;
    return from;
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace leat
