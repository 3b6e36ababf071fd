// SPDX-License-Identifier: Apache-2.0
#include "apps/doctor/bounded_look.h"

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
[[noreturn]] void look_and_end(const char* path, int answer) {
  if (answer > 0) ::close_range(0, static_cast<unsigned>(answer) - 1, 0);
  ::close_range(static_cast<unsigned>(answer) + 1, UINT_MAX, 0);
  struct stat info;
  const int failed = ::stat(path, &info) == 0 ? 0 : errno;
  const bool told = ::write(answer, &failed, sizeof failed) == sizeof failed;
  ::_exit(told ? 0 : 1);
}

}  // namespace

std::optional<int> look_at(const std::string& path, std::chrono::milliseconds patience) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno;
  const File question(ends[0]);
  File answer(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) look_and_end(path.c_str(), answer.fd());
  answer = File();
  pollfd readable{.fd = question.fd(), .events = POLLIN, .revents = 0};
  int failed = 0;
  if (::poll(&readable, 1, static_cast<int>(patience.count())) > 0 &&
      ::read(question.fd(), &failed, sizeof failed) == sizeof failed) {
    ::waitpid(child, nullptr, 0);
    return failed;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, WNOHANG);
  return std::nullopt;
}

}  // namespace leat
