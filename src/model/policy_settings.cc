// SPDX-License-Identifier: Apache-2.0
#include "model/policy_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/units.h"
#include "model/mount_entry.h"

namespace leat {
namespace {

using Values = PolicySettings::Values;

// Options that a path can have come first; among them, those of pools come first.
constexpr std::array<std::string_view, 12> kOptions = {
    "quota",        "ttl",   "priority", "pin", "cache", "freshness",
    "negative_ttl", "write", "uid",      "gid", "umask", "isolated"};
constexpr size_t kOfPools = 4, kOfPaths = 8;

Error wrong(std::string_view option, std::string_view text, std::string_view wanted) {
  return error(StatusCode::kInvalidArgument,
               fmt::format("option {}={} must be {}", option, text, wanted));
}

Result<uint32_t> parse_number(std::string_view option, std::string_view text, int base,
                              uint32_t max, std::string_view wanted) {
  uint32_t value = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (failed != std::errc() || end != text.data() + text.size() || value > max) {
    return wrong(option, text, wanted);
  }
  return value;
}

Result<> set_of_path(PathPolicy& policy, std::string_view option, const std::string& text) {
  if (option == "cache") {
    LEAT_TRY(policy.cache, parse_cache_mode(text));
  } else if (option == "freshness") {
    const auto negative_ttl = policy.freshness.negative_ttl;
    LEAT_TRY(policy.freshness, Freshness::parse(text));
    policy.freshness.negative_ttl = negative_ttl;
  } else if (option == "negative_ttl") {
    Result<std::chrono::nanoseconds> age = parse_duration(text);
    if (!age) return error(age.error().with_context("option negative_ttl"));
    policy.freshness.negative_ttl = *age;
  } else if (option == "write") {
    LEAT_TRY(policy.write, parse_write_mode(text));
  }
  return {};
}

Result<> set_of_mount(Policy& policy, std::string_view option, const std::string& text) {
  // The two highest numbers mean "none" in the kernel.
  constexpr uint32_t kIdMax = UINT32_MAX - 2;
  if (option == "uid") {
    LEAT_TRY(policy.uid, parse_number(option, text, 10, kIdMax, "a user's number"));
  } else if (option == "gid") {
    LEAT_TRY(policy.gid, parse_number(option, text, 10, kIdMax, "a group's number"));
  } else if (option == "umask") {
    LEAT_TRY(policy.umask, parse_number(option, text, 8, 0777, "octal and at most 0777"));
  } else if (option == "isolated") {
    if (text != "true" && text != "false") return wrong(option, text, "'true' or 'false'");
    policy.isolated = text == "true";
  }
  return set_of_path(policy, option, text);
}

bool has_pool_option(const Values& values) {
  auto given = [&](std::string_view option) { return values.contains(std::string(option)); };
  return std::any_of(kOptions.begin(), kOptions.begin() + kOfPools, given);
}

// Merges the options of the mount, of the paths above `below`, and of `below` itself; the innermost
// wins.
Result<Policy::PathOverride> parse_path_policy(ParsedPolicy& parsed, std::string_view mount_path,
                                               const PolicySettings& settings,
                                               const std::string& below) {
  const auto normal = normalise_path("/" + below);
  if (!normal || *normal != "/" + below || below.empty()) {
    return error(StatusCode::kInvalidArgument,
                 "a path in a mount has no '.', '..' or empty parts, and no slash at its ends");
  }
  Policy::PathOverride path{below, parsed.policy};
  Values pooled = settings.mount;
  for (const auto& [at, values] : settings.paths) {  // outer paths sort before inner ones
    if (!is_at_or_below(below, at)) continue;
    for (const auto& [option, text] : values) {
      LEAT_CHECK_OK(check_policy_option(option, /*of_path=*/true));
      if (option == "freshness" && text == "snapshot") {
        return wrong(option, text, "max-age=DURATION, immutable or validate for a path in a mount");
      }
      LEAT_CHECK_OK(set_of_path(path.policy, option, text));
      pooled[option] = text;
    }
    if (!has_pool_option(values)) continue;
    const std::string whole = join_path(mount_path, at);
    if (!values.contains("quota")) pooled.erase("quota");
    path.policy.pool = pool_of_path(whole);
    LEAT_TRY(parsed.pools[path.policy.pool], PoolPolicy::parse(whole, pooled));
  }
  return path;
}

}  // namespace

std::span<const std::string_view> policy_options() {
  return kOptions;
}

Result<> check_policy_option(std::string_view option, bool of_path) {
  std::span<const std::string_view> can_have(kOptions);
  if (of_path) can_have = can_have.first(kOfPaths);
  if (std::ranges::find(can_have, option) != can_have.end()) return {};
  if (std::ranges::find(kOptions, option) != kOptions.end()) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("{} is an option of whole mounts; a path in one can have {}", option,
                             fmt::join(can_have, ", ")));
  }
  return error(StatusCode::kInvalidArgument,
               fmt::format("there is no option '{}' of a policy; there are {}", option,
                           fmt::join(can_have, ", ")));
}

Result<ParsedPolicy> parse_policy(std::string_view mount_path, const PolicySettings& settings,
                                  const Policy& defaults) {
  ParsedPolicy parsed{.policy = defaults, .pools = {}};
  parsed.policy.pool = pool_of_mount(mount_path);
  for (const auto& [option, text] : settings.mount) {
    LEAT_CHECK_OK(set_of_mount(parsed.policy, option, text));
  }
  LEAT_TRY(parsed.pools[parsed.policy.pool],
           PoolPolicy::parse(std::string(mount_path), settings.mount));
  parsed.policy.paths.clear();
  for (const auto& [below, values] : settings.paths) {
    Result<Policy::PathOverride> path = parse_path_policy(parsed, mount_path, settings, below);
    if (!path) return error(path.error().with_context(join_path(mount_path, below)));
    parsed.policy.paths.push_back(*std::move(path));
  }
  return parsed;
}

}  // namespace leat
