// SPDX-License-Identifier: Apache-2.0
// PoolId, PoolPolicy: whose cached bytes count together, and how they are kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat {

// A mount or a snapshot. 0: nobody's in particular.
enum class PoolId : uint64_t { kNone = 0 };
// Of the mount at that path of the namespace; the same after a restart.
PoolId pool_of_mount(std::string_view path);
// Of a path in a mount that has one of its own; never that of a mount at that path.
PoolId pool_of_path(std::string_view path);

enum class Priority : int8_t { kLow = -1, kNormal = 0, kHigh = 1 };
std::string_view to_string(Priority priority);  // "low", "normal", "high"
std::optional<Priority> priority_named(std::string_view text);

struct PoolPolicy {
  std::string name = {};                  // for people: the mount's path
  uint64_t quota_bytes = 0;               // 0: the whole cache
  std::chrono::nanoseconds ttl{0};        // since it came, give or take an eighth; 0: for ever
  Priority priority = Priority::kNormal;  // lower ones go first, and never for the sake of equals
  bool pinned = false;                    // does not go for want of room

  // From a mount's options `quota` (a size), `ttl` (a duration), `priority` (low, normal, high) and
  // `pin` (true, false); others are not looked at.
  static Result<PoolPolicy> parse(std::string name,
                                  const std::map<std::string, std::string>& options);
  friend bool operator==(const PoolPolicy&, const PoolPolicy&) = default;
};

}  // namespace leat
