// SPDX-License-Identifier: Apache-2.0
#include "telemetry/log_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

namespace leat::log {
namespace {

std::atomic<uint64_t> size_max = 0;

uint64_t size_of(int fd) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

// Best effort: the size of the log stays bounded even if the disk is full.
void copy_to(const std::string& path, int from) {
  const int into = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (into < 0) return;
  off_t at = 0;
  constexpr size_t kPiece = 1 << 30;
  while (::sendfile(into, from, &at, kPiece) > 0) {
  }
  ::close(into);
}

}  // namespace

void set_file_size_max(uint64_t bytes) {
  size_max = bytes;
}

std::string rotated_path(const std::string& file) {
  return file + ".1";
}

LogFile::LogFile(std::string path)
    : path_(std::move(path)),
      fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}

LogFile::~LogFile() {
  if (fd_ >= 0) ::close(fd_);
}

void LogFile::write(std::string_view text) {
  const uint64_t bound = size_max.load();
  if (bound > 0 && size_of(fd_) + text.size() > bound) rotate_if_full(text.size());
  while (!text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

// Holds a lock of the file, since a daemon that takes over may do the same at this moment. A line
// that another process appends meanwhile may be lost.
void LogFile::rotate_if_full(size_t bytes) {
  if (::flock(fd_, LOCK_EX) != 0) return;
  // Another process may have done it before; then the file is short now.
  if (size_of(fd_) + bytes > size_max.load()) {
    copy_to(rotated_path(path_), fd_);
    if (::ftruncate(fd_, 0) != 0) ::lseek(fd_, 0, SEEK_END);  // nothing else can be done
  }
  ::flock(fd_, LOCK_UN);
}

}  // namespace leat::log
