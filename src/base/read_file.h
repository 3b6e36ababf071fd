// SPDX-License-Identifier: Apache-2.0
// Reads files to their end. Standard streams throw from their iterators when a read fails. That
// happens for a directory, or in /proc when the process has just ended.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace leat {

// Returns the content of the file at `path`, also in /proc, where files have no size. Returns only
// the last `last_bytes` of a larger regular file. Errors name the path.
Result<std::string> read_file(const std::string& path, uint64_t last_bytes = UINT64_MAX);
// Returns the remaining bytes of an open file or a pipe. `what` names it in errors.
Result<std::string> read_to_end(int fd, const std::string& what);

}  // namespace leat
