// SPDX-License-Identifier: Apache-2.0
// Policy: how a mount and paths in it are kept fresh, what of them is cached, and who may see it.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/cache_use.h"
#include "model/pool.h"

namespace leat {

struct Freshness {
  enum class Mode : uint8_t {
    kMaxAge,     // checked at open when what is known is older than max_age
    kImmutable,  // never checked again once known
    kValidate,   // checked at each open
    kSnapshot,   // as a snapshot of the store says, for as long as that is used
  };
  Mode mode = Mode::kMaxAge;
  std::chrono::nanoseconds max_age = std::chrono::seconds(60);
  // How long a missing name is believed to be missing, whatever the mode.
  std::chrono::nanoseconds negative_age = std::chrono::seconds(5);

  // The same, but nothing is believed longer than what is there. Counted from when the store was
  // asked, like max_age.
  std::chrono::nanoseconds missing_age() const {
    const bool ages = mode == Mode::kMaxAge || mode == Mode::kValidate;
    return ages ? std::min(negative_age, max_age) : negative_age;
  }

  // How old an answer may be that somebody else asked the store for, so that half of what it may be
  // believed is left.
  std::chrono::nanoseconds answer_age_max() const;

  // "max-age=60s", "immutable", "validate", "snapshot".
  static Result<Freshness> parse(std::string_view text);
  std::string to_string() const;

  friend bool operator==(const Freshness&, const Freshness&) = default;
};

// What a path may have of its own.
struct PathPolicy {
  Freshness freshness;
  CacheMode cache = CacheMode::kAuto;
  PoolId pool = PoolId::kNone;

  friend bool operator==(const PathPolicy&, const PathPolicy&) = default;
};

// Of the names in one directory.
struct DirectoryPolicy : PathPolicy {
  struct Single {
    std::string name;
    PathPolicy policy;
    friend bool operator==(const Single&, const Single&) = default;
  };
  std::vector<Single> singles =
      {};  // what files of these names have of their own; few, mostly none

  const PathPolicy& of_file(std::string_view name) const;
  // Whether files get other FileRefs by it than by `other`.
  bool same_files(const DirectoryPolicy& other) const;
};

struct Policy : PathPolicy {
  struct Below {
    std::string path;  // below the mount: "train/part-1"; of a directory, or of a file
    PathPolicy policy;
    friend bool operator==(const Below&, const Below&) = default;
  };
  std::vector<Below> paths = {};  // sorted by path

  bool read_only = true;  // writing is not there yet
  bool isolated = false;  // its own StoreId: shares no page with another mount
  uid_t uid = 0;          // owner shown for every name
  gid_t gid = 0;
  mode_t umask = 022;  // taken from 0666 (files) and 0777 (directories)

  // Of what is at `below` ("": the mount itself): its own, else that of the nearest directory above
  // it that has one, else the mount's.
  const PathPolicy& of(std::string_view below) const;
  DirectoryPolicy of_directory(std::string_view below) const;

  friend bool operator==(const Policy&, const Policy&) = default;
};

}  // namespace leat
