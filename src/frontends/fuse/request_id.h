// SPDX-License-Identifier: Apache-2.0
// The kernel's number of a request, which libfuse does not pass to handlers.
#pragma once

#include <cstdint>

namespace leat {

// Set in the number of a resent request (linux/fuse.h of 6.9: FUSE_UNIQUE_RESEND). The answer
// carries it, too.
inline constexpr uint64_t kResent = uint64_t{1} << 63;

inline uint64_t original_unique(uint64_t unique) {
  return unique & ~kResent;
}

// Number of the request that this server thread is handling; 0 if unknown.
inline thread_local uint64_t current_unique = 0;

}  // namespace leat
