// SPDX-License-Identifier: Apache-2.0
// PoolId, PoolPolicy: a pool is the set of cached bytes that share a quota, TTL and priority.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat {

// The pool of a mount, a path or a snapshot. 0: no particular one.
enum class PoolId : uint64_t { kNone = 0 };
// Returns the pool of the mount at that path of the namespace; the same after a restart.
PoolId pool_of_mount(std::string_view path);
// Returns the pool of a path that has its own in a mount. Never equal to the pool of a mount at
// that path.
PoolId pool_of_path(std::string_view path);

enum class Priority : int8_t { kLow = -1, kNormal = 0, kHigh = 1 };
std::string_view to_string(Priority priority);  // "low", "normal", "high"
std::optional<Priority> priority_named(std::string_view text);

struct PoolPolicy {
  std::string name = {};                  // for people: the mount's path
  uint64_t quota_bytes = 0;               // 0: the whole cache
  std::chrono::nanoseconds ttl{0};        // since insertion, give or take an eighth; 0: for ever
  Priority priority = Priority::kNormal;  // lower ones are evicted first, never in favour of equal
                                          // ones
  bool pinned = false;                    // is not evicted for lack of space

  // Reads a mount's options `quota` (a size), `ttl` (a duration), `priority` (low, normal, high)
  // and `pin` (true, false). Ignores others.
  static Result<PoolPolicy> parse(std::string name,
                                  const std::map<std::string, std::string>& options);
  friend bool operator==(const PoolPolicy&, const PoolPolicy&) = default;
};

}  // namespace leat
