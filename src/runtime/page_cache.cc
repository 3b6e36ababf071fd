// SPDX-License-Identifier: Apache-2.0
#include "runtime/page_cache.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace leat {
namespace {

// cachestat(2). The headers of Debian 12 lack it; its number is the same on all architectures.
std::optional<uint64_t> cached_pages(int fd, uint64_t offset, uint64_t size) {
  constexpr long kCachestat = 451;
  struct {
    uint64_t offset, size;
  } range{offset, size};
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } pages{};
  if (::syscall(kCachestat, fd, &range, &pages, 0) != 0) return std::nullopt;
  return pages.cached;
}

uint64_t page_bytes() {
  static const uint64_t bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

std::optional<uint64_t> cached_bytes(int fd, uint64_t offset, uint64_t size) {
  const std::optional<uint64_t> pages = cached_pages(fd, offset, size);
  if (!pages) return std::nullopt;
  return *pages * page_bytes();
}

bool all_cached(int fd, uint64_t offset, uint64_t size) {
  if (size == 0) return true;
  const uint64_t pages = (offset + size - 1) / page_bytes() - offset / page_bytes() + 1;
  return cached_pages(fd, offset, size).value_or(0) >= pages;
}

}  // namespace leat
