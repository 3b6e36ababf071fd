// SPDX-License-Identifier: Apache-2.0
// PolicySettings: the policies of a mount and of paths in it, as people write them: option, value.
//
//   freshness     max-age=60s, immutable, validate; of a mount that has one: snapshot
//   negative_age  a duration: how long a missing name is believed to be missing
//   cache         auto, always, never
//   quota, ttl, priority, pin: of the pool (model/pool.h)
//   uid, gid, umask, isolated: of a whole mount only
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

  // What is set for the mount where `below` is empty, else for that path.
  Values& at(const std::string& below) { return below.empty() ? mount : paths[below]; }

  friend bool operator==(const PolicySettings&, const PolicySettings&) = default;
};

// The names above, all of them.
std::span<const std::string_view> policy_options();
// kInvalidArgument for a name that is none of them; `of_path`: or that a path cannot have.
Result<> check_policy_option(std::string_view option, bool of_path);

struct MadePolicy {
  Policy policy;
  std::map<PoolId, PoolPolicy> pools;  // the mount's, and those of paths that have one of their own
};

// Options that are not given are as in `defaults`, and a path's as those of what is above it; but a
// path that sets quota, ttl, priority or pin has a pool of its own, without the quota above it.
// Options that are none of policies are not looked at. kInvalidArgument says which one is wrong.
Result<MadePolicy> make_policy(std::string_view mount_path, const PolicySettings& settings,
                               const Policy& defaults);

}  // namespace leat
