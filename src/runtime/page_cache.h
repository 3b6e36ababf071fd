// SPDX-License-Identifier: Apache-2.0
// What the kernel has of a file in memory.
#pragma once

#include <cstdint>
#include <optional>

namespace leat {

// Bytes of a range of an open file that are in the page cache or on their way there, counted by
// whole pages. Nothing where the kernel does not tell (before Linux 6.5).
std::optional<uint64_t> cached_bytes(int fd, uint64_t offset, uint64_t size);
// Whether all of the range is; no where the kernel does not tell.
bool all_cached(int fd, uint64_t offset, uint64_t size);

}  // namespace leat
