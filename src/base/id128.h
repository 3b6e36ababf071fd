// SPDX-License-Identifier: Apache-2.0
// Id128: 128 opaque bits, the shape of every persistent identity (store, file, cache directory).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace leat {

struct Id128 {
  std::array<uint8_t, 16> bytes{};

  friend auto operator<=>(const Id128&, const Id128&) = default;

  bool is_zero() const { return *this == Id128{}; }
  // 32 lower-case hexadecimal digits.
  std::string to_hex() const;
  static std::optional<Id128> from_hex(std::string_view text);
  // From the kernel's random generator.
  static Id128 random();
  // Returns the first 16 bytes of SHA-256 over the parts. Each part is preceded by its length as 8
  // little-endian bytes, so that ("ab","c") and ("a","bc") differ. Fixed for ever: it names data on
  // disk.
  static Id128 digest(std::span<const std::string_view> parts);

  // The bits are uniform already, so any 64 of them are a hash.
  uint64_t hash64() const {
    uint64_t value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
};

// Different id types must not be mixed up: `struct FileIdTag; using FileId = TypedId<FileIdTag>;`
template <class Tag>
struct TypedId : Id128 {
  TypedId() = default;
  explicit TypedId(const Id128& id) : Id128(id) {}
  friend auto operator<=>(const TypedId&, const TypedId&) = default;
};

struct IdHash {
  using is_avalanching = void;  // for boost::unordered_flat_map
  size_t operator()(const Id128& id) const { return id.hash64(); }
};

}  // namespace leat
