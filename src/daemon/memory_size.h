// SPDX-License-Identifier: Apache-2.0
// The default memory of the daemon for reads.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace leat {

// Returns the bytes that this process may use: the machine's memory, or the smallest limit of its
// cgroup (version 1 or 2) and those above.
uint64_t usable_memory_bytes(const std::string& cgroup_file = "/proc/self/cgroup",
                             const std::string& cgroup_root = "/sys/fs/cgroup");

// Returns a 32nd of `usable`, between 256 MiB and 1 GiB, but at most a quarter of it, and at least
// 32 MiB. It holds bytes that were read and are not on disk yet; with less, a first read waits for
// the disk. In addition the daemon uses half as much for reads in flight, a quarter for pooled
// buffers, and about 60 MiB for itself.
uint64_t default_memory_bytes(uint64_t usable);

// Returns the option fetch.memory_size, or that default.
uint64_t memory_bytes_of(const Config& config);

}  // namespace leat
