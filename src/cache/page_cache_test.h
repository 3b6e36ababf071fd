// SPDX-License-Identifier: Apache-2.0
// Test helpers: a cache directory without its page cache.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "cache/store_fixture_test.h"

namespace leat {

// Drops the files from the page cache, after a sync. Returns false if that failed.
inline bool drop_page_cache(const std::string& directory) {
  for (const std::string& path : files_ending(directory, ".data")) {
    const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file || ::fdatasync(file.fd()) != 0) return false;
    if (::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED) != 0) return false;
  }
  return true;
}

}  // namespace leat
