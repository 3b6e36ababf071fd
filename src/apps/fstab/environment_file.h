// SPDX-License-Identifier: Apache-2.0
// A file of NAME=VALUE lines for the environment of a daemon: what fstab has no place for. No
// message of it holds a value.
#pragma once

#include <map>
#include <string>

#include "base/status.h"

namespace leat {

using Environment = std::map<std::string, std::string>;

// Empty lines and those that begin with # or ; say nothing; a value may stand in quotes, double or
// single, which are taken off, and is otherwise as it stands. kInvalidArgument: another line.
// kPermissionDenied: the file belongs to neither root nor this user, or others may read or write
// it.
Result<Environment> read_environment_file(const std::string& path);

// Names whose value in the environment of the process `pid`, as it was at its start, is another
// one.
Result<std::string> differing_names(const Environment& wanted, int pid);

}  // namespace leat
