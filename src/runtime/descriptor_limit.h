// SPDX-License-Identifier: Apache-2.0
// How the process divides the descriptors that it may open (RLIMIT_NOFILE) between the files of its
// caches and all else.
#pragma once

#include <cstdint>

namespace leat {

// Returns the limit now; UINT64_MAX: none.
uint64_t descriptor_limit();
// Returns what caches leave to connections and to files of the folder: 4,096, or half of a small
// limit.
uint64_t descriptors_beside_caches();
// Returns how many requests of each of two sizes one store may get at once. Each has a connection,
// and together they take at most half of the above.
unsigned requests_within_descriptors(unsigned wanted);

}  // namespace leat
