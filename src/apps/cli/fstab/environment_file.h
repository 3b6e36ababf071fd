// SPDX-License-Identifier: Apache-2.0
// A file of NAME=VALUE lines with environment variables of a daemon, which do not fit into fstab.
// No error message contains a value.
#pragma once

#include <map>
#include <string>

#include "base/status.h"

namespace leat {

using Environment = std::map<std::string, std::string>;

// Ignores empty lines and lines that begin with # or ;. Removes double or single quotes around a
// value, and changes nothing else in it. Errors: kInvalidArgument for any other line. Returns
// kPermissionDenied if the file belongs to neither root nor this user, or others may read or write
// it.
Result<Environment> read_environment_file(const std::string& path);

// Returns the names with another value in the initial environment of process `pid`.
Result<std::string> differing_names(const Environment& wanted, int pid);

}  // namespace leat
