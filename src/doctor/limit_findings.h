// SPDX-License-Identifier: Apache-2.0
// Limits of this process: open files, memory, io_uring for its disks.
#pragma once

#include <cstdint>

#include "doctor/finding.h"
#include "doctor/host_paths.h"

namespace leat {

struct LimitFacts {
  int io_uring_errno = 0;            // from io_uring_setup(2); 0: success
  int io_uring_disabled = 0;         // the sysctl kernel.io_uring_disabled
  uint64_t open_files_max = 0;       // the hard limit, to which the daemon raises the soft one
  uint64_t memory_bytes = 0;         // that this process may use in total
  uint64_t memory_wanted_bytes = 0;  // fetch.memory_size of the configuration; 0: the default
  bool clock_synchronised = true;    // as reported by the kernel
};

LimitFacts gather_limits(const HostPaths& paths);

// `cache_directories`: the configured number.
Findings limit_findings(const LimitFacts& facts, size_t cache_directories);

}  // namespace leat
