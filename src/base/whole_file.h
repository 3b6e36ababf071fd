// SPDX-License-Identifier: Apache-2.0
// Files read to their end. Streams of the standard library throw out of their iterators when a read
// fails, as it does of a directory, or in /proc when the process has just gone.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace leat {

// What is at `path`, also in /proc, where files have no size; of one with more than `last_bytes`
// its end. The failure names the path.
Result<std::string> read_whole_file(const std::string& path, uint64_t last_bytes = UINT64_MAX);
// What is left of an open file or a pipe, of which `what` is the name in failures.
Result<std::string> read_to_end(int fd, const std::string& what);

}  // namespace leat
