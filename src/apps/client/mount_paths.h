// SPDX-License-Identifier: Apache-2.0
// Resolves an argument of a command that works on mounts by the daemon's list of them: a store's
// URL and a path are taken for each other easily, and so is a local path for one in a mount.
#pragma once

#include <string>
#include <string_view>

#include "apps/command.h"

namespace leat {

// `argument` as an absolute path. kInvalidArgument for a store's URL: names the mount that shows
// it, else how to mount it. `command`: "load", "snapshot use".
Attempt<std::string> path_in_mounts(std::string_view command, const std::string& argument);

// kNotFound where the daemon has no mount at, above or below `path`, which is absolute; says whose
// source it is, if it is one. Success where no daemon answers: the next request fails then.
Attempt<> check_in_mounts(const std::string& path);

// Why `path` is not found in the daemon's namespace, where that is for want of a mount; else `why`.
Failure explain_missing(Failure why, const std::string& path);

// kReadOnly where `path`, which is absolute, is in a mount: says how to write to its store.
Attempt<> check_not_in_mounts(const std::string& path);

}  // namespace leat
