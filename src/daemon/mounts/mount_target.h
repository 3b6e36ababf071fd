// SPDX-License-Identifier: Apache-2.0
// Prepares the directory of a mount, and removes remains of an earlier daemon. All functions may
// block.
#pragma once

#include <string>

#include "base/status.h"
#include "model/store_url.h"

namespace leat {

// Unmounts what a killed daemon left at `path`; returns false if there is no such mount.
Result<bool> remove_dead_mount(const std::string& path);
// Makes `path` a directory that can be a mount point; the error says what to do. Returns true if it
// had to unmount a dead mount first.
Result<bool> prepare_mount_target(const std::string& path);

// Rejects a local source that contains the folder at `path`, or is contained in it: a read of one
// would go through the other.
Result<> check_apart(const StoreUrl& source, const std::string& path);

// Lists processes with open files or their working directory below `path`, for an error message:
// "pid 12 (bash: working directory), pid 13 (python3: data.bin)". Empty if none is visible; other
// users' processes may be invisible.
std::string describe_holders(const std::string& path);

}  // namespace leat
