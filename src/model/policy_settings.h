// SPDX-License-Identifier: Apache-2.0
// PolicySettings: the policies of a mount and of paths in it, from option=value pairs.
//
//   `freshness`     max-age=60s, immutable, validate; for a mount that has one: snapshot.
//   `negative_ttl`  A duration: how long a missing name is cached as missing.
//   `cache`         auto, always, never.
//   `quota`, `ttl`, `priority`, `pin`       Of the pool (model/pool.h).
//   `uid`, `gid`, `umask`, `isolated`       Of a whole mount only.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/policy.h"

namespace leat {

struct PolicySettings {
  using Values = std::map<std::string, std::string>;  // option → value
  Values mount;
  std::map<std::string, Values> paths;  // by path below the mount: "train/part-1"

  // Returns the options of the mount if `below` is empty, else those of that path.
  Values& at(const std::string& below) { return below.empty() ? mount : paths[below]; }

  friend bool operator==(const PolicySettings&, const PolicySettings&) = default;
};

// Returns the names above, all of them.
std::span<const std::string_view> policy_options();
// kInvalidArgument for an unknown name or, with `of_path`, one that a path cannot have.
Result<> check_policy_option(std::string_view option, bool of_path);

struct ParsedPolicy {
  Policy policy;
  std::map<PoolId, PoolPolicy> pools;  // the mount's, and those of paths with a pool of their own
};

// A missing option has the value of `defaults`; for a path, the value of the nearest path above it.
// A path that sets quota, ttl, priority or pin has a pool of its own, without the quota above it.
// Options that are no policies are ignored. kInvalidArgument names the wrong one.
Result<ParsedPolicy> parse_policy(std::string_view mount_path, const PolicySettings& settings,
                                  const Policy& defaults);

}  // namespace leat
