// SPDX-License-Identifier: Apache-2.0
// For tests of what comes from the disk: a cache directory without its page cache.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "cache/store_fixture_test.h"

namespace leat {

// Out of the page cache, as far as it is on the disk. False where that was refused.
inline bool cool(const std::string& directory) {
  for (const std::string& path : files_ending(directory, ".data")) {
    const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file || ::fdatasync(file.fd()) != 0) return false;
    if (::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED) != 0) return false;
  }
  return true;
}

}  // namespace leat
