// SPDX-License-Identifier: Apache-2.0
#include "model/version.h"

#include <fmt/format.h>

#include <cinttypes>
#include <cstdio>

namespace leat {

std::string Version::to_string() const {
  switch (kind) {
    case Kind::kNone:
      return "unknown";
    case Kind::kEtag:
      return "etag:" + value;
    case Kind::kGeneration:
      return "generation:" + value;
    case Kind::kVersionId:
      return "version:" + value;
    case Kind::kSizeMtime:
      return "mtime:" + value;
  }
  return "unknown";
}

Version Version::size_mtime(uint64_t size, int64_t mtime_ns, uint64_t inode, int64_t ctime_ns) {
  return {Kind::kSizeMtime, fmt::format("{}-{}-{}-{}", size, mtime_ns, inode, ctime_ns)};
}

std::optional<Version::SizeMtime> Version::size_mtime_only() const {
  SizeMtime found;
  int end = 0;
  const bool matches =
      kind == Kind::kSizeMtime && std::sscanf(value.c_str(), "%" SCNu64 "-%" SCNd64 "-0-0%n",
                                              &found.size, &found.mtime_ns, &end) == 2;
  if (!matches || static_cast<size_t>(end) != value.size()) return std::nullopt;
  return found;
}

}  // namespace leat
