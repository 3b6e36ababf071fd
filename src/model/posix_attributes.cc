// SPDX-License-Identifier: Apache-2.0
#include "model/posix_attributes.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <charconv>
#include <chrono>

namespace leat {
namespace {

constexpr int kNanoDigits = 9;
constexpr unsigned kModeMax = 0177777;

template <class Number>
std::optional<Number> number_of(std::string_view text, int base = 10) {
  Number number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool has_type(unsigned mode) {
  return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode);
}

std::optional<mode_t> mode_of(std::string_view text) {
  const auto decimal = number_of<unsigned>(text);
  if (decimal && *decimal <= kModeMax && has_type(*decimal)) return *decimal;
  const auto octal = number_of<unsigned>(text, 8);
  if (octal && *octal <= kModeMax) return *octal;
  return std::nullopt;
}

std::string text_of(WallTime time) {
  const auto since_epoch = time.time_since_epoch();
  const auto whole = std::chrono::floor<std::chrono::seconds>(since_epoch);
  return fmt::format("{}.{:09}", whole.count(), (since_epoch - whole).count());
}

std::optional<WallTime> time_of(std::string_view text) {
  const size_t point = text.find('.');
  const auto seconds = number_of<int64_t>(text.substr(0, point));
  if (!seconds) return std::nullopt;
  std::string fraction(point == text.npos ? "" : text.substr(point + 1));
  fraction.resize(kNanoDigits, '0');
  const auto nanos = number_of<uint32_t>(fraction);
  if (!nanos) return std::nullopt;
  return WallTime(std::chrono::seconds(*seconds) + std::chrono::nanoseconds(*nanos));
}

}  // namespace

ObjectMetadata to_metadata(const PosixAttributes& attributes) {
  ObjectMetadata metadata;
  if (attributes.mode) metadata["mode"] = fmt::format("{}", *attributes.mode);
  if (attributes.uid) metadata["uid"] = fmt::format("{}", *attributes.uid);
  if (attributes.gid) metadata["gid"] = fmt::format("{}", *attributes.gid);
  if (attributes.atime) metadata["atime"] = text_of(*attributes.atime);
  if (attributes.mtime) metadata["mtime"] = text_of(*attributes.mtime);
  if (attributes.ctime) metadata["ctime"] = text_of(*attributes.ctime);
  return metadata;
}

PosixAttributes from_metadata(const ObjectMetadata& metadata) {
  auto value = [&](const char* name) {
    const auto found = metadata.find(name);
    return found == metadata.end() ? std::string_view() : std::string_view(found->second);
  };
  return {.mode = mode_of(value("mode")),
          .uid = number_of<uid_t>(value("uid")),
          .gid = number_of<gid_t>(value("gid")),
          .atime = time_of(value("atime")),
          .mtime = time_of(value("mtime")),
          .ctime = time_of(value("ctime"))};
}

}  // namespace leat
