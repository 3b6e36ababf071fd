// SPDX-License-Identifier: Apache-2.0
// The directory that is to become a folder, and what an earlier daemon may have left there. All of
// it may block.
#pragma once

#include <string>

#include "base/status.h"
#include "model/store_url.h"

namespace leat {

// Takes away what a daemon that was killed left mounted at `path`; false when there is no such
// mount.
Result<bool> remove_dead_mount(const std::string& path);
// After it `path` is a directory that can be mounted on; says what to do where it cannot be. True
// when it had to take away such a mount first.
Result<bool> prepare_mount_target(const std::string& path);

// Refuses a local source that the folder at `path` would contain, or be contained in: reading one
// would go through the other.
Result<> check_apart(const StoreUrl& source, const std::string& path);

// Who has something open below `path` or stands in it, for an error message: "pid 12 (bash: working
// directory), pid 13 (python3: data.bin)". Empty when nobody is seen, who may be another user's.
std::string describe_holders(const std::string& path);

}  // namespace leat
