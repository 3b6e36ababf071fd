// SPDX-License-Identifier: Apache-2.0
// Resolves an argument of a command on mounts by the daemon's list of mounts. Users easily confuse
// a store's URL with a path, and a local path with one in a mount.
#pragma once

#include <string>
#include <string_view>

#include "apps/cli/command/command.h"

namespace leat {

// Returns `argument` as an absolute path. kInvalidArgument for a store's URL: names the mount that
// shows it, or how to mount it. `command`: "load", "snapshot use".
CommandResult<std::string> path_in_mounts(std::string_view command, const std::string& argument);

// Returns kNotFound if the daemon has no mount at, above or below `path`, which is absolute. Names
// the mount if `path` lies in the source of one. Succeeds if no daemon responds: the next request
// fails then.
CommandResult<> check_in_mounts(const std::string& path);

// Returns an error about the missing mount, if that is why `path` is not found in the daemon's
// namespace; else `why`.
Failure explain_missing(Failure why, const std::string& path);

// kReadOnly if `path`, which is absolute, is in a mount; the error says how to write to its store.
CommandResult<> check_not_in_mounts(const std::string& path);

}  // namespace leat
