// SPDX-License-Identifier: Apache-2.0
#include "model/policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace leat {

std::chrono::nanoseconds Freshness::peer_reply_age_max() const {
  switch (mode) {
    case Mode::kMaxAge:
      return max_age / 2;
    case Mode::kValidate:
      return std::chrono::nanoseconds(0);
    case Mode::kImmutable:
    case Mode::kSnapshot:
      break;
  }
  return std::chrono::hours(24);
}

Result<Freshness> Freshness::parse(std::string_view text) {
  Freshness freshness;
  if (text == "immutable") {
    freshness.mode = Mode::kImmutable;
    return freshness;
  }
  if (text == "validate") {
    freshness.mode = Mode::kValidate;
    return freshness;
  }
  if (text == "snapshot") {
    freshness.mode = Mode::kSnapshot;
    return freshness;
  }
  constexpr std::string_view kPrefix = "max-age=";
  if (!text.starts_with(kPrefix)) {
    return error(
        StatusCode::kInvalidArgument,
        fmt::format("'{}' is not a freshness; write max-age=60s, immutable, validate or snapshot",
                    text));
  }
  LEAT_TRY(freshness.max_age, parse_duration(text.substr(kPrefix.size())));
  return freshness;
}

std::string Freshness::to_string() const {
  switch (mode) {
    case Mode::kImmutable:
      return "immutable";
    case Mode::kValidate:
      return "validate";
    case Mode::kSnapshot:
      return "snapshot";
    case Mode::kMaxAge:
      break;
  }
  return "max-age=" + format_duration(max_age);
}

std::string_view to_string(WriteMode mode) {
  switch (mode) {
    case WriteMode::kBack:
      return "back";
    case WriteMode::kLocal:
      return "local";
    case WriteMode::kThrough:
      break;
  }
  return "through";
}

Result<WriteMode> parse_write_mode(std::string_view text) {
  for (WriteMode mode : {WriteMode::kThrough, WriteMode::kBack, WriteMode::kLocal}) {
    if (text == to_string(mode)) return mode;
  }
  return error(StatusCode::kInvalidArgument,
               fmt::format("'{}' is not a mode of writing; write through, back or local", text));
}

const PathPolicy& DirectoryPolicy::of_file(std::string_view name) const {
  auto found = std::ranges::find(file_overrides, name, &FileOverride::name);
  return found == file_overrides.end() ? *this : found->policy;
}

bool DirectoryPolicy::same_files(const DirectoryPolicy& other) const {
  auto same = [](const PathPolicy& a, const PathPolicy& b) {
    return a.cache == b.cache && a.pool == b.pool;
  };
  auto as_here = [&](const FileOverride& one) {
    return same(of_file(one.name), other.of_file(one.name));
  };
  return same(*this, other) && std::ranges::all_of(file_overrides, as_here) &&
         std::ranges::all_of(other.file_overrides, as_here);
}

const PathPolicy& Policy::of(std::string_view below) const {
  const PathOverride* nearest = nullptr;
  for (const PathOverride& one : paths) {
    const bool covers = below.starts_with(one.path) &&
                        (below.size() == one.path.size() || below[one.path.size()] == '/');
    if (covers && (nearest == nullptr || nearest->path.size() < one.path.size())) nearest = &one;
  }
  return nearest == nullptr ? *this : nearest->policy;
}

DirectoryPolicy Policy::of_directory(std::string_view below) const {
  DirectoryPolicy policy{of(below), {}};
  for (const PathOverride& one : paths) {
    std::string_view path = one.path;
    if (!below.empty()) {
      if (!path.starts_with(below) || path.size() <= below.size() || path[below.size()] != '/') {
        continue;
      }
      path.remove_prefix(below.size() + 1);
    }
    if (!path.contains('/')) policy.file_overrides.push_back({std::string(path), one.policy});
  }
  return policy;
}

}  // namespace leat
