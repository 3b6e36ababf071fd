// SPDX-License-Identifier: Apache-2.0
#include "wire/wire_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/mount_entry.h"

namespace leat {
namespace {

Error wrong(std::string reason) {
  return error(StatusCode::kInvalidArgument, std::move(reason));
}

constexpr char kAttributeEnd = ',';

void put_number(std::string& text, std::string_view name, int64_t value) {
  if (!text.empty()) text += kAttributeEnd;
  text += fmt::format("{}={}", name, value);
}

void put_time(std::string& text, std::string_view name, const std::optional<WallTime>& time) {
  if (time) put_number(text, name, time->time_since_epoch().count());
}

WallTime time_of(int64_t since_1970) {
  return WallTime(std::chrono::nanoseconds(since_1970));
}

}  // namespace

std::string attributes_text(const PosixAttributes& attributes) {
  std::string text;
  if (attributes.mode) put_number(text, "mode", *attributes.mode);
  if (attributes.uid) put_number(text, "uid", *attributes.uid);
  if (attributes.gid) put_number(text, "gid", *attributes.gid);
  put_time(text, "atime_ns", attributes.atime);
  put_time(text, "mtime_ns", attributes.mtime);
  put_time(text, "ctime_ns", attributes.ctime);
  return text;
}

Result<PosixAttributes> parse_attributes(std::string_view text) {
  PosixAttributes attributes;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(kAttributeEnd));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const size_t equals = one.find('=');
    int64_t value = 0;
    const std::string_view digits = equals == one.npos ? "" : one.substr(equals + 1);
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || failed != std::errc() || end != digits.data() + digits.size()) {
      return wrong(fmt::format("'{}' is no attribute of a file", one));
    }
    const std::string_view name = one.substr(0, equals);
    if (name == "atime_ns") attributes.atime = time_of(value);
    if (name == "mtime_ns") attributes.mtime = time_of(value);
    if (name == "ctime_ns") attributes.ctime = time_of(value);
    if (name != "mode" && name != "uid" && name != "gid") continue;
    if (value < 0 || value > UINT32_MAX) {
      return wrong(fmt::format("'{}' is no attribute of a file", one));
    }
    if (name == "mode") attributes.mode = static_cast<mode_t>(value);
    if (name == "uid") attributes.uid = static_cast<uid_t>(value);
    if (name == "gid") attributes.gid = static_cast<gid_t>(value);
  }
  return attributes;
}

std::string version_text(const Version& version) {
  return fmt::format("{}:{}", static_cast<int>(version.kind), version.value);
}

Result<Version> parse_version(std::string_view text) {
  const size_t colon = text.find(':');
  const auto kind = parse_decimal<uint8_t>(text.substr(0, colon));
  if (colon == text.npos || !kind || *kind > static_cast<uint8_t>(Version::Kind::kSizeMtime)) {
    return wrong(fmt::format("'{}' is no version of a kind that is known here", text));
  }
  const std::string_view value = text.substr(colon + 1);
  if (value.size() > kVersionBytesMax) return wrong("a version is longer than 1,024 bytes");
  if (value.empty() != (*kind == 0)) return wrong(fmt::format("'{}' is no version", text));
  return Version{static_cast<Version::Kind>(*kind), std::string(value)};
}

Result<StoreId> parse_store(std::string_view text) {
  const auto id = Id128::from_hex(text);
  if (!id) return wrong(fmt::format("'{}' names no store: it is not 32 hexadecimal digits", text));
  return StoreId(*id);
}

Result<> check_key(std::string_view key, bool directory) {
  auto refuse = [&](const char* reason) { return wrong(fmt::format("key '{}' {}", key, reason)); };
  if (key.size() > kKeyBytesMax) return wrong("a key is longer than 4,096 bytes");
  if (key.contains('\0')) return refuse("holds a NUL");
  std::string_view rest = key;
  if (directory && rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.empty()) return refuse("is empty");
  for (bool last = false; !last;) {
    const size_t slash = rest.find('/');
    const std::string_view component = rest.substr(0, slash);
    if (component.empty() || component == "." || component == "..") {
      return refuse("has an empty, '.' or '..' component");
    }
    last = slash == rest.npos;
    if (!last) rest.remove_prefix(slash + 1);
  }
  return {};
}

Result<> check_prefix(std::string_view prefix) {
  if (prefix.empty()) return {};
  if (!prefix.ends_with('/')) return wrong(fmt::format("prefix '{}' does not end in '/'", prefix));
  return check_key(prefix, true);
}

Result<> check_mount(std::string_view mount) {
  const auto normalised = normalise_path(mount);
  if (normalised && *normalised == mount) return {};
  return wrong(fmt::format("'{}' is no path of a mount", mount));
}

}  // namespace leat
