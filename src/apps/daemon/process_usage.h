// SPDX-License-Identifier: Apache-2.0
// What this process uses of the host, and the limit of open files.
#pragma once

#include <cstdint>

namespace leat {

struct ProcessUsage {
  uint64_t rss_bytes;
  uint64_t open_files;
  uint64_t open_files_max;
};
ProcessUsage process_usage();
// User and system.
double process_cpu_seconds();

// Every open file of a folder may hold a cache file: raises the soft limit to the hard one.
void raise_open_files_limit();

}  // namespace leat
