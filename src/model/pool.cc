// SPDX-License-Identifier: Apache-2.0
#include "model/pool.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/units.h"

namespace leat {
namespace {

Error wrong(std::string_view option, std::string_view text, std::string_view wanted) {
  return error(StatusCode::kInvalidArgument,
               fmt::format("option {}={} must be {}", option, text, wanted));
}

Result<> set(PoolPolicy& policy, std::string_view option, const std::string& text) {
  if (option == "quota") {
    Result<uint64_t> bytes = parse_bytes(text);
    if (!bytes) return error(bytes.error().with_context("option quota"));
    policy.quota_bytes = *bytes;
    // A smaller quota would not hold a segment and a file.
    if (policy.quota_bytes < 4 * kMiB) return wrong(option, text, "at least 4MiB");
  } else if (option == "ttl") {
    Result<std::chrono::nanoseconds> ttl = parse_duration(text);
    if (!ttl) return error(ttl.error().with_context("option ttl"));
    policy.ttl = *ttl;
    if (policy.ttl < std::chrono::seconds(1)) return wrong(option, text, "at least 1s");
  } else if (option == "priority") {
    std::optional<Priority> priority = priority_named(text);
    if (!priority) return wrong(option, text, "'low', 'normal' or 'high'");
    policy.priority = *priority;
  } else if (option == "pin") {
    if (text != "true" && text != "false") return wrong(option, text, "'true' or 'false'");
    policy.pinned = text == "true";
  }
  return {};
}

}  // namespace

PoolId pool_of_mount(std::string_view path) {
  return PoolId{hash_bytes(path, hash_bytes("leat-pool-1"))};
}

PoolId pool_of_path(std::string_view path) {
  return PoolId{hash_bytes(path, hash_bytes("leat-pool-path-1"))};
}

std::string_view to_string(Priority priority) {
  switch (priority) {
    case Priority::kLow:
      return "low";
    case Priority::kHigh:
      return "high";
    case Priority::kNormal:
      break;
  }
  return "normal";
}

std::optional<Priority> priority_named(std::string_view text) {
  for (Priority priority : {Priority::kLow, Priority::kNormal, Priority::kHigh}) {
    if (text == to_string(priority)) return priority;
  }
  return std::nullopt;
}

Result<PoolPolicy> PoolPolicy::parse(std::string name,
                                     const std::map<std::string, std::string>& options) {
  PoolPolicy policy{.name = std::move(name)};
  for (const auto& [option, text] : options) LEAT_CHECK_OK(set(policy, option, text));
  return policy;
}

}  // namespace leat
