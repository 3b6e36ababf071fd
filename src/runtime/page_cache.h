// SPDX-License-Identifier: Apache-2.0
// Queries which parts of a file are in the kernel's page cache.
#pragma once

#include <cstdint>
#include <optional>

namespace leat {

// Returns the bytes of a range of an open file that are in the page cache or being read into it, in
// whole pages. Returns nothing if the kernel cannot tell (before Linux 6.5).
std::optional<uint64_t> cached_bytes(int fd, uint64_t offset, uint64_t size);
// Returns whether the whole range is cached; false if the kernel cannot tell.
bool all_cached(int fd, uint64_t offset, uint64_t size);

}  // namespace leat
