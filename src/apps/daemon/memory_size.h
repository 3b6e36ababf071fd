// SPDX-License-Identifier: Apache-2.0
// How much memory the daemon may use for reads, where nobody says.
#pragma once

#include <cstdint>
#include <string>

namespace leat {

// Bytes that this process may use at all: the machine's, or the least that its cgroup (of either
// version) and those above it allow.
uint64_t usable_memory_bytes(const std::string& cgroup_file = "/proc/self/cgroup",
                             const std::string& cgroup_root = "/sys/fs/cgroup");

// A 32nd of `usable`, within 256 MiB and 1 GiB, but never more than a quarter of it, nor less than
// 32 MiB. What was read and is not on disk yet lies in it, so below that a first read waits for the
// disk. Beside it the daemon uses half as much for reads under way, a quarter for buffers that it
// keeps, and some 60 MiB for itself.
uint64_t default_memory_bytes(uint64_t usable);

}  // namespace leat
