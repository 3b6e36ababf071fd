// SPDX-License-Identifier: Apache-2.0
// Splits the options of a mount among the modules.
#pragma once

#include "base/status.h"
#include "frontends/admin/daemon_api.h"
#include "model/mount_options.h"
#include "model/policy_settings.h"
#include "model/store_url.h"

namespace leat {

// Moves the freshness of the request, and values of its profile for missing options, to the options
// of `url`.
Result<> expand_profile(MountRequest& request, StoreUrl& url);

// Returns the policy's options, including those of paths.
PolicySettings policy_settings_of(const MountRequest& request, const StoreUrl& url);

// kInvalidArgument if `policy`, or writing, needs opens, which the mount does not have.
Result<> check_opens(const MountOptions& options, const Policy& policy);

}  // namespace leat
