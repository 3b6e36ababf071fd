// SPDX-License-Identifier: Apache-2.0
#include "base/heap.h"

#include <malloc.h>

namespace leat {

uint64_t malloc_free_bytes() {
  return mallinfo2().fordblks;
}

bool trim_heap(uint64_t most) {
  if (malloc_free_bytes() <= most) return false;
  malloc_trim(0);
  return true;
}

}  // namespace leat
