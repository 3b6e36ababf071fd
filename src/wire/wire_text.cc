// SPDX-License-Identifier: Apache-2.0
#include "wire/wire_text.h"

#include <fmt/format.h>

#include "model/mount_entry.h"

namespace leat {
namespace {

Error wrong(std::string reason) {
  return error(StatusCode::kInvalidArgument, std::move(reason));
}

}  // namespace

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
