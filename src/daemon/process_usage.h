// SPDX-License-Identifier: Apache-2.0
// Resource use of this process, and its limit of open files.
#pragma once

#include <cstdint>

namespace leat {

struct ProcessUsage {
  uint64_t rss_bytes;
  uint64_t open_files;
  uint64_t open_files_max;
};
ProcessUsage process_usage();
// User and system time.
double process_cpu_seconds();

// Raises the soft limit to the hard one: every open file of a mount may need a cache file.
void raise_open_files_limit();

}  // namespace leat
