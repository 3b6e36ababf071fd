// SPDX-License-Identifier: Apache-2.0
// Memory for Buffers. The pool keeps released memory for reuse. Fresh memory costs a page fault and
// the zeroing of every page, more than a copy into it. Small short-lived buffers would also
// fragment the heap. Thread-safe.
#pragma once

#include <cstddef>

namespace leat {

// Returns the bytes that an allocation of `size` bytes takes. The granularity grows: whole pages
// below 64 KiB, a power of two up to 2 MiB, whole huge pages above.
size_t buffer_memory_bytes(size_t size);

// Returns at least `size` bytes (not 0), page-aligned, not zeroed. Throws std::bad_alloc.
std::byte* allocate_buffer(size_t size);
// Releases memory. `size` is the one passed to allocate_buffer().
void free_buffer(std::byte* memory, size_t size) noexcept;

// Returns the bytes that the pool keeps now: at most kPooledBufferBytesMax or the last limit that
// was set.
size_t pooled_buffer_bytes();
inline constexpr size_t kPooledBufferBytesMax = 64 << 20;
// Lowers the limit, for a host with little memory. Memory above it leaves the pool only when it is
// reused.
void set_pooled_buffer_bytes_max(size_t bytes_max);

}  // namespace leat
