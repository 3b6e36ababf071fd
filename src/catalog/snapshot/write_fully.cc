// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot/write_fully.h"

#include <unistd.h>

#include <cerrno>

namespace leat {

Result<> write_fully(const File& file, std::string_view bytes, uint64_t offset,
                     const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t done =
        ::pwrite(file.fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0) return error(status_from_errno(errno, "write " + what));
    offset += static_cast<uint64_t>(done);
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return {};
}

}  // namespace leat
