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
constexpr size_t kSmallestKept = 64 << 10;
constexpr size_t kLargestKept = 16 << 20;

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

// Powers of two up to a huge page, whole huge pages above; below kSmallestKept whole pages.
size_t rounded(size_t size) {
  if (size < kSmallestKept) return (size + kPage - 1) / kPage * kPage;
  if (size <= kHugePage) return std::bit_ceil(size);
  return (size + kHugePage - 1) / kHugePage * kHugePage;
}

bool kept(size_t bytes) {
  return kPooled && bytes >= kSmallestKept && bytes <= kLargestKept;
}

constexpr size_t kPowers = std::bit_width(kHugePage / kSmallestKept);
constexpr size_t kClasses = kPowers + kLargestKept / kHugePage - 1;

size_t class_of(size_t bytes) {
  if (bytes <= kHugePage) return std::bit_width(bytes / kSmallestKept) - 1;
  return kPowers + bytes / kHugePage - 2;
}

struct Pool {
  Pool() {
    for (size_t i = 0; i < kClasses; ++i) {
      free[i].reserve(kBufferBytesKept / (i < kPowers ? kSmallestKept : kHugePage));
    }
  }

  std::mutex mutex;                                    // leaf
  std::array<std::vector<std::byte*>, kClasses> free;  // never grown: giving back cannot throw
  size_t bytes = 0;
  size_t bytes_max = kBufferBytesKept;
};

// Never destroyed: buffers may be given back until the last thread has ended.
Pool& pool() {
  static Pool* const the_pool = new Pool;
  return *the_pool;
}

std::byte* allocate(size_t bytes) {
  const bool huge = bytes >= kHugePage;
  void* memory = std::aligned_alloc(huge ? kHugePage : kPage, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  if (huge) ::madvise(memory, bytes, MADV_HUGEPAGE);  // only advice
  return static_cast<std::byte*>(memory);
}

}  // namespace

std::byte* take_buffer_memory(size_t size) {
  const size_t bytes = rounded(size);
  if (!kept(bytes)) return allocate(bytes);
  {
    Pool& from = pool();
    std::lock_guard lock(from.mutex);
    auto& free = from.free[class_of(bytes)];
    if (!free.empty()) {
      std::byte* memory = free.back();
      free.pop_back();
      from.bytes -= bytes;
      return memory;
    }
  }
  return allocate(bytes);
}

void give_buffer_memory(std::byte* memory, size_t size) noexcept {
  const size_t bytes = rounded(size);
  if (kept(bytes)) {
    Pool& to = pool();
    std::lock_guard lock(to.mutex);
    auto& free = to.free[class_of(bytes)];
    // Room for the pointer first: giving back must not throw.
    if (to.bytes + bytes <= to.bytes_max && free.size() < free.capacity()) {
      free.push_back(memory);
      to.bytes += bytes;
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
