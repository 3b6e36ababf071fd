// SPDX-License-Identifier: Apache-2.0
// What the options of a mount say to its parts.
#pragma once

#include "base/status.h"
#include "doors/admin/host.h"
#include "model/folder_settings.h"
#include "model/policy_settings.h"
#include "model/store_url.h"

namespace leat {

// The freshness of the request, and what its profile says where that is not given, become options
// of `url`.
Result<> expand_profile(MountRequest& request, StoreUrl& url);

// Of the policy alone; those of paths too.
PolicySettings policy_settings_of(const MountRequest& request, const StoreUrl& url);

// kInvalidArgument where `policy` asks for what a folder without opens cannot do.
Result<> check_opens(const FolderSettings& folder, const Policy& policy);

}  // namespace leat
