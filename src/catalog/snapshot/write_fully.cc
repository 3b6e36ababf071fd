// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot/write_fully.h"

#include <fcntl.h>
#include <stdlib.h>
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

Result<File> open_unnamed(const std::string& folder) {
  File file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  // NFS and older overlayfs do not support unnamed files.
  if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) {
    std::string path = folder + "/leat-XXXXXX";
    file = File(::mkostemp(path.data(), O_CLOEXEC));
    if (file) ::unlink(path.c_str());
  }
  if (!file) return error(status_from_errno(errno, "create a file in " + folder));
  return file;
}

}  // namespace leat
