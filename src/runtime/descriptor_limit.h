// SPDX-License-Identifier: Apache-2.0
// How the process divides the descriptors that it may open (RLIMIT_NOFILE) between the files of its
// caches and all else.
#pragma once

#include <cstdint>

namespace leat {

// Returns the limit now; UINT64_MAX: none.
uint64_t descriptor_limit();
// Of the limit, what caches leave to connections and to files of the folder: 4,096, or half of a
// small limit.
uint64_t descriptors_beside_caches();
// Concurrent requests, each with a connection, of each of two sizes, so that one store takes at most
// half of that.
unsigned requests_within_descriptors(unsigned wanted);

}  // namespace leat
