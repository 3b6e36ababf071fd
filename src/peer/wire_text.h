// SPDX-License-Identifier: Apache-2.0
// How nouns are written in requests and answers of peers. Reading is strict: what is refused is
// kInvalidArgument and names what is wrong. Private to this room.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/file_ref.h"

namespace leat {

inline constexpr size_t kKeyBytesMax = 4096;  // PATH_MAX; S3 has 1,024
inline constexpr size_t kVersionBytesMax = 1024;

// All of it, decimal, without sign or blanks.
template <class T>
std::optional<T> parse_decimal(std::string_view text) {
  T number{};
  const char* end = text.data() + text.size();
  if (text.empty() || text.front() == '-') return std::nullopt;
  const auto [stopped, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc() || stopped != end) return std::nullopt;
  return number;
}

// The kind's number, ':', the value.
std::string version_text(const Version& version);
Result<Version> parse_version(std::string_view text);
Result<StoreId> parse_store(std::string_view text);

// Of an object: components that are neither empty nor "." nor "..", no NUL, without slashes at the
// ends. With `directory` one that ends in '/' as well.
Result<> check_key(std::string_view key, bool directory);
// Of a listing: empty, or of a directory.
Result<> check_prefix(std::string_view prefix);
// Of a mount: a normalised path of the namespace.
Result<> check_mount(std::string_view mount);

}  // namespace leat
