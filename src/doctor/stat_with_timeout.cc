// SPDX-License-Identifier: Apache-2.0
#include "doctor/stat_with_timeout.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "runtime/disk.h"

namespace leat {
namespace {

// Only async-signal-safe calls: it runs after a fork beside threads. Closes the parent's
// descriptors, since a reader of the parent's output would wait for the end of this process.
[[noreturn]] void stat_and_exit(const char* path, int writer) {
  if (writer > 0) ::close_range(0, static_cast<unsigned>(writer) - 1, 0);
  ::close_range(static_cast<unsigned>(writer) + 1, UINT_MAX, 0);
  struct stat info;
  const int failed = ::stat(path, &info) == 0 ? 0 : errno;
  const bool sent = ::write(writer, &failed, sizeof failed) == sizeof failed;
  ::_exit(sent ? 0 : 1);
}

}  // namespace

std::optional<int> stat_with_timeout(const std::string& path, std::chrono::milliseconds timeout) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno;
  const File reader(ends[0]);
  File writer(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) stat_and_exit(path.c_str(), writer.fd());
  writer = File();
  pollfd readable{.fd = reader.fd(), .events = POLLIN, .revents = 0};
  int failed = 0;
  if (::poll(&readable, 1, static_cast<int>(timeout.count())) > 0 &&
      ::read(reader.fd(), &failed, sizeof failed) == sizeof failed) {
    ::waitpid(child, nullptr, 0);
    return failed;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, WNOHANG);
  return std::nullopt;
}

}  // namespace leat
