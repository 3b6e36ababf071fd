// SPDX-License-Identifier: Apache-2.0
#include "base/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace leat {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = 2 << 20;
// Below it a buffer is small.
constexpr size_t kSmallestPower = 64 << 10;
constexpr size_t kLargestKept = 16 << 20;
// Of what is kept, small buffers are at most a 16th: they must not take the room of large ones. A
// few are enough, since one comes for each that goes. Without any the heap falls to pieces: malloc
// finds no aligned page where just one is free between others. Measured with glibc 2.36, 160,000
// ranges of 200 bytes one after the other through 256 MiB: 234 MiB resident; 880, and more with
// each, without this and the header below.
constexpr size_t kSmallShare = 16;
// What malloc has of its own in front of a piece. A small buffer has so much less than whole pages,
// and the next one lies beside it; with whole pages each would take one more.
constexpr size_t kMallocHeader = 16;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAT_NO_BUFFER_POOL  // a use after free must be one
#endif
#endif
#ifdef LEAT_NO_BUFFER_POOL
constexpr bool kPooled = false;
#else
constexpr bool kPooled = true;
#endif

bool small(size_t bytes) {
  return bytes < kSmallestPower;
}

bool kept(size_t bytes) {
  return kPooled && bytes <= kLargestKept;
}

constexpr size_t kSmalls = kSmallestPower / kPage - 1;
constexpr size_t kPowers = kSmalls + std::bit_width(kHugePage / kSmallestPower);
constexpr size_t kClasses = kPowers + kLargestKept / kHugePage - 1;

size_t class_of(size_t bytes) {
  if (small(bytes)) return bytes / kPage - 1;
  if (bytes <= kHugePage) return kSmalls + std::bit_width(bytes / kSmallestPower) - 1;
  return kPowers + bytes / kHugePage - 2;
}

struct Pool {
  Pool() {
    for (size_t i = 0; i < kClasses; ++i) {
      size_t count_max = kBufferBytesKept / (i < kPowers ? kSmallestPower : kHugePage);
      if (i < kSmalls) count_max = kBufferBytesKept / kSmallShare / ((i + 1) * kPage);
      free[i].reserve(count_max);
    }
  }

  std::mutex mutex;                                    // leaf
  std::array<std::vector<std::byte*>, kClasses> free;  // never grown: giving back cannot throw
  size_t bytes = 0;
  size_t small_bytes = 0;  // of these
  size_t bytes_max = kBufferBytesKept;

  bool room(size_t more) const {
    return bytes + more <= bytes_max &&
           (!small(more) || small_bytes + more <= bytes_max / kSmallShare);
  }
  void comes(size_t one) {
    bytes += one;
    if (small(one)) small_bytes += one;
  }
  void goes(size_t one) {
    bytes -= one;
    if (small(one)) small_bytes -= one;
  }
};

// Never destroyed: buffers may be given back until the last thread has ended.
Pool& pool() {
  static Pool* const the_pool = new Pool;
  return *the_pool;
}

std::byte* allocate(size_t bytes) {
  const bool huge = bytes >= kHugePage;
  void* memory = nullptr;
  const size_t size = small(bytes) ? bytes - kMallocHeader : bytes;
  // Not aligned_alloc(), of which a size must be a multiple of the alignment.
  if (::posix_memalign(&memory, huge ? kHugePage : kPage, size) != 0) throw std::bad_alloc();
  if (huge) ::madvise(memory, bytes, MADV_HUGEPAGE);  // only advice
  return static_cast<std::byte*>(memory);
}

}  // namespace

size_t buffer_memory_bytes(size_t size) {
  if (size <= kSmallestPower - kPage - kMallocHeader) {
    return (size + kMallocHeader + kPage - 1) / kPage * kPage;
  }
  if (size <= kSmallestPower) return kSmallestPower;
  if (size <= kHugePage) return std::bit_ceil(size);
  return (size + kHugePage - 1) / kHugePage * kHugePage;
}

std::byte* take_buffer_memory(size_t size) {
  const size_t bytes = buffer_memory_bytes(size);
  if (!kept(bytes)) return allocate(bytes);
  {
    Pool& from = pool();
    std::lock_guard lock(from.mutex);
    auto& free = from.free[class_of(bytes)];
    if (!free.empty()) {
      std::byte* memory = free.back();
      free.pop_back();
      from.goes(bytes);
      return memory;
    }
  }
  return allocate(bytes);
}

void give_buffer_memory(std::byte* memory, size_t size) noexcept {
  const size_t bytes = buffer_memory_bytes(size);
  if (kept(bytes)) {
    Pool& to = pool();
    std::lock_guard lock(to.mutex);
    auto& free = to.free[class_of(bytes)];
    // Room for the pointer first: giving back must not throw.
    if (to.room(bytes) && free.size() < free.capacity()) {
      free.push_back(memory);
      to.comes(bytes);
      return;
    }
  }
  std::free(memory);
}

void keep_buffer_bytes(size_t bytes_max) {
  Pool& of = pool();
  std::lock_guard lock(of.mutex);
  of.bytes_max = std::min(bytes_max, kBufferBytesKept);
}

size_t buffer_bytes_kept() {
  Pool& of = pool();
  std::lock_guard lock(of.mutex);
  return of.bytes;
}

}  // namespace leat
