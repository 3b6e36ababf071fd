// SPDX-License-Identifier: Apache-2.0
// Policy: freshness, cache use, pool, and owners and modes of a mount and of paths in it.
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
    kMaxAge,     // checked at open if the cached metadata is older than max_age
    kImmutable,  // never checked again once cached
    kValidate,   // checked at each open
    kSnapshot,   // metadata of a snapshot of the store, as long as the mount uses it
  };
  Mode mode = Mode::kMaxAge;
  std::chrono::nanoseconds max_age = std::chrono::seconds(60);
  // How long a missing name is cached as missing, whatever the mode.
  std::chrono::nanoseconds negative_ttl = std::chrono::seconds(5);

  // Returns negative_ttl, but at most max_age in the modes that expire. Counted from the request to
  // the store, like max_age.
  std::chrono::nanoseconds effective_negative_ttl() const {
    const bool ages = mode == Mode::kMaxAge || mode == Mode::kValidate;
    return ages ? std::min(negative_ttl, max_age) : negative_ttl;
  }

  // Returns the maximum age of another worker's cached reply. Half of its lifetime is left then.
  std::chrono::nanoseconds peer_reply_age_max() const;

  // "max-age=60s", "immutable", "validate", "snapshot".
  static Result<Freshness> parse(std::string_view text);
  std::string to_string() const;

  friend bool operator==(const Freshness&, const Freshness&) = default;
};

// When what programs write reaches the store, in a mount that takes writes.
enum class WriteMode : uint8_t {
  kThrough,  // before close() and fsync() return
  kBack,     // after that; they return when it is durable on this host
  kLocal,    // never
};
std::string_view to_string(WriteMode mode);
// "through", "back", "local".
Result<WriteMode> parse_write_mode(std::string_view text);

// Options that a path can have of its own.
struct PathPolicy {
  Freshness freshness;
  CacheMode cache = CacheMode::kAuto;
  PoolId pool = PoolId::kNone;
  WriteMode write = WriteMode::kThrough;

  friend bool operator==(const PathPolicy&, const PathPolicy&) = default;
};

// Policies of the names in one directory.
struct DirectoryPolicy : PathPolicy {
  struct FileOverride {
    std::string name;
    PathPolicy policy;
    friend bool operator==(const FileOverride&, const FileOverride&) = default;
  };
  std::vector<FileOverride> file_overrides =
      {};  // files with a policy of their own; few, mostly none

  const PathPolicy& of_file(std::string_view name) const;
  // Returns whether files get the same FileRefs under both policies.
  bool same_files(const DirectoryPolicy& other) const;
};

struct Policy : PathPolicy {
  struct PathOverride {
    std::string path;  // below the mount: "train/part-1"; a directory or a file
    PathPolicy policy;
    friend bool operator==(const PathOverride&, const PathOverride&) = default;
  };
  std::vector<PathOverride> paths = {};  // sorted by path

  bool read_only = true;  // writing is not supported yet
  bool isolated = false;  // has its own StoreId: shares no page with another mount
  uid_t uid = 0;          // shown as owner of every name
  gid_t gid = 0;
  mode_t umask = 022;  // removed from 0666 (files) and 0777 (directories)

  // Returns the policy of `below` ("": the mount itself): its own, else that of the nearest
  // directory above it that has one, else the mount's.
  const PathPolicy& of(std::string_view below) const;
  DirectoryPolicy of_directory(std::string_view below) const;

  friend bool operator==(const Policy&, const Policy&) = default;
};

}  // namespace leat
