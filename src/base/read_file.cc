// SPDX-License-Identifier: Apache-2.0
#include "base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace leat {

Result<std::string> read_to_end(int fd, const std::string& what) {
  std::string text;
  std::array<char, 65536> piece;
  while (true) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error(status_from_errno(errno, "cannot read " + what));
    if (got == 0) return text;
    text.append(piece.data(), static_cast<size_t>(got));
  }
}

Result<std::string> read_file(const std::string& path, uint64_t last_bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return error(status_from_errno(errno, "cannot open " + path));
  struct stat info;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
    const auto size = static_cast<uint64_t>(info.st_size);
    if (size > last_bytes) ::lseek(fd, static_cast<off_t>(size - last_bytes), SEEK_SET);
  }
  Result<std::string> text = read_to_end(fd, path);
  ::close(fd);
  return text;
}

}  // namespace leat
