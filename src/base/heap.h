// SPDX-License-Identifier: Apache-2.0
// The unused part of the C library's heap: free memory between allocated blocks. malloc keeps it
// for later allocations. If several threads allocate in turn, it can be several times as large as
// the used part.
#pragma once

#include <cstdint>

namespace leat {

// Returns the unused bytes of the heap.
uint64_t malloc_free_bytes();

// Returns whole free pages to the system if more than `most` bytes are unused. Returns whether it
// did. Takes milliseconds for a heap of hundreds of MiB, during which other threads wait for
// memory.
bool trim_heap(uint64_t most);

}  // namespace leat
