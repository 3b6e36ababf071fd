// SPDX-License-Identifier: Apache-2.0
// Version: the mark by which a store distinguishes contents of an object. Equal versions mean equal
// bytes, as far as the store keeps that promise; see docs/semantics.md.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace leat {

struct Version {
  enum class Kind : uint8_t {
    kNone = 0,        // nothing is known: never used as a cache key
    kEtag = 1,        // HTTP entity tag, as sent, quotes included
    kGeneration = 2,  // GCS generation number
    kVersionId = 3,   // the store's own version id
    kSizeMtime = 4,   // size, mtime in nanoseconds and, if available, inode and ctime
  };
  Kind kind = Kind::kNone;
  std::string value;

  bool known() const { return kind != Kind::kNone; }
  // "etag:\"0af3…\"", for people and logs.
  std::string to_string() const;

  static Version etag(std::string value) { return {Kind::kEtag, std::move(value)}; }
  static Version size_mtime(uint64_t size, int64_t mtime_ns, uint64_t inode = 0,
                            int64_t ctime_ns = 0);

  struct SizeMtime {
    uint64_t size = 0;
    int64_t mtime_ns = 0;
  };
  // Returns nothing for another kind, and with inode or ctime.
  std::optional<SizeMtime> size_mtime_only() const;

  friend auto operator<=>(const Version&, const Version&) = default;
};

}  // namespace leat
