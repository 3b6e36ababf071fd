// SPDX-License-Identifier: Apache-2.0
// The number that the kernel gave a request, of which libfuse does not tell its handlers.
#pragma once

#include <cstdint>

namespace leat {

// Set in the number of a request that was sent before and not answered (linux/fuse.h of 6.9:
// FUSE_UNIQUE_RESEND). The answer carries it, too.
inline constexpr uint64_t kSentAgain = uint64_t{1} << 63;

inline uint64_t original_unique(uint64_t unique) {
  return unique & ~kSentAgain;
}

// Of the request that this thread of the door is handling; 0 where that is not known.
inline thread_local uint64_t current_unique = 0;

}  // namespace leat
