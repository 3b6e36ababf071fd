// SPDX-License-Identifier: Apache-2.0
#include "daemon/mounts/mount_settings.h"

#include <algorithm>

#include "model/profile.h"

namespace leat {

Result<> expand_profile(MountRequest& request, StoreUrl& url) {
  if (!request.freshness.empty()) url.options["freshness"] = request.freshness;
  LEAT_TRY(url.options, with_profile(std::move(url.options)));
  LEAT_CHECK_OK(parse_mount_options(url.options));
  return {};
}

PolicySettings policy_settings_of(const MountRequest& request, const StoreUrl& url) {
  PolicySettings settings{.mount = {}, .paths = request.paths};
  for (std::string_view option : policy_options()) {
    if (auto given = url.options.find(std::string(option)); given != url.options.end()) {
      settings.mount.insert(*given);
    }
  }
  return settings;
}

Result<> check_opens(const MountOptions& options, const Policy& policy) {
  auto asks = [](const PathPolicy& of) { return of.freshness.mode == Freshness::Mode::kValidate; };
  const bool asked = asks(policy) || std::ranges::any_of(policy.paths, [&](const auto& below) {
                       return asks(below.policy);
                     });
  if (options.no_open && options.writable) {
    return error(
        StatusCode::kInvalidArgument,
        "a mount that takes writes needs opens, which are disabled in this mount (no_open, "
        "profile small-files); remove one of the two options");
  }
  auto writes = [](const PathPolicy& of) { return of.write != WriteMode::kThrough; };
  const bool modes = writes(policy) || std::ranges::any_of(policy.paths, [&](const auto& below) {
                       return writes(below.policy);
                     });
  if (modes && !options.writable) {
    return error(StatusCode::kInvalidArgument,
                 "write=back and write=local are modes of a mount that takes writes; add "
                 "--writable");
  }
  if (!options.no_open || !asked) return {};
  return error(StatusCode::kInvalidArgument,
               "freshness=validate requests the version at each open, and opens are disabled in "
               "this mount (no_open, profile small-files); take max-age=1s, or remove no_open");
}

}  // namespace leat
