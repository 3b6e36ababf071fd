// SPDX-License-Identifier: Apache-2.0
// Text forms of values in peer requests and answers. Reading is strict: kInvalidArgument names the
// fault. Private to this module.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/file_ref.h"
#include "model/posix_attributes.h"

namespace leat {

inline constexpr size_t kKeyBytesMax = 4096;  // PATH_MAX; S3 has 1,024
inline constexpr size_t kVersionBytesMax = 1024;

// Parses the whole text as decimal, without sign or blanks.
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

// "mode=33188,mtime_ns=5": decimal numbers, times in nanoseconds since 1970. Not the members that
// object stores do not keep. Ignores unknown names.
std::string attributes_text(const PosixAttributes& attributes);
Result<PosixAttributes> parse_attributes(std::string_view text);

// Checks an object's key: components are neither empty nor "." nor "..", no NUL, no slash at the
// ends. With `directory`, a trailing '/' is allowed.
Result<> check_key(std::string_view key, bool directory);
// Checks a listing's prefix: empty, or a directory's key.
Result<> check_prefix(std::string_view prefix);
// Checks a mount path: a normalised path of the namespace.
Result<> check_mount(std::string_view mount);

}  // namespace leat
