// SPDX-License-Identifier: Apache-2.0
// The C library's heap: what of it lies unused between what is used. Such memory is kept for what
// comes, and with threads that allocate in turn there may be several times as much of it as is in
// use.
#pragma once

#include <cstdint>

namespace leat {

// Bytes.
uint64_t unused_heap_bytes();

// Gives whole pages of it back to the system where it is more than `most`; whether it did. Takes
// milliseconds for a heap of hundreds of MiB, in which others wait for memory.
bool trim_heap(uint64_t most);

}  // namespace leat
