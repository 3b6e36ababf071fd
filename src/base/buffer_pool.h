// SPDX-License-Identifier: Apache-2.0
// Memory for Buffers. What they give back is kept for the next ones: fresh memory costs a page
// fault and the zeroing of every page, more than copying into it, and small buffers that come and
// go would leave holes in the heap. Thread-safe.
#pragma once

#include <cstddef>

namespace leat {

// What memory for `size` bytes takes, grows with it: whole pages below 64 KiB, a power of two up to
// 2 MiB, whole huge pages above.
size_t buffer_memory_bytes(size_t size);

// At least `size` bytes (not 0), page-aligned, not zeroed. Throws std::bad_alloc.
std::byte* take_buffer_memory(size_t size);
// `size` as it was taken.
void give_buffer_memory(std::byte* memory, size_t size) noexcept;

// Bytes that are kept now, at most kBufferBytesKept or what was last said.
size_t buffer_bytes_kept();
inline constexpr size_t kBufferBytesKept = 64 << 20;
// For a host with little memory. What is kept already goes only when it is used.
void keep_buffer_bytes(size_t bytes_max);

}  // namespace leat
