// SPDX-License-Identifier: Apache-2.0
// heap_bytes(): heap memory of the process, as glibc's malloc counts it with its overhead per
// piece. The address sanitizer's heap differs, so each piece is counted there as glibc would. The
// thread sanitizer does not report all allocations, so nothing is counted there (kHeapIsCounted).
// heap_bytes_of_system(): includes unused memory between the pieces; not with a sanitizer.
#pragma once

#include <malloc.h>

#include <atomic>
#include <cstdint>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAT_HEAP_HOOKS
#include <sanitizer/allocator_interface.h>
#elif __has_feature(thread_sanitizer)
#define LEAT_HEAP_UNSEEN
#endif
#endif

namespace leat::testing {

#ifdef LEAT_HEAP_UNSEEN
inline constexpr bool kHeapIsCounted = false;
#else
inline constexpr bool kHeapIsCounted = true;
#endif

#ifdef LEAT_HEAP_HOOKS

inline std::atomic<int64_t> counted_heap_bytes = 0;

// Eight bytes before each piece, a multiple of 16 bytes, 32 at least.
inline int64_t piece_bytes(size_t size) {
  return size <= 24 ? 32 : static_cast<int64_t>((size + 8 + 15) / 16 * 16);
}

// Counts from the first call on.
inline int64_t heap_bytes() {
  static const int hooks = __sanitizer_install_malloc_and_free_hooks(
      [](const volatile void*, size_t size) { counted_heap_bytes += piece_bytes(size); },
      [](const volatile void* piece) {
        counted_heap_bytes -= piece_bytes(__sanitizer_get_allocated_size(piece));
      });
  static_cast<void>(hooks);
  return counted_heap_bytes;
}

inline int64_t heap_bytes_of_system() {
  return heap_bytes();
}

#else

inline int64_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

inline int64_t heap_bytes_of_system() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<int64_t>(info.arena + info.hblkhd);
}

#endif

}  // namespace leat::testing
