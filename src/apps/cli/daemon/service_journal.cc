// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/daemon/service_journal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <vector>

#include "runtime/disk.h"

extern char** environ;

namespace leat {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTimeout = std::chrono::seconds(10);
// Lines of 100 to 200 bytes.
constexpr const char* kLines = "50000";

// Starts journalctl with standard output to `output`; returns 0 on failure.
pid_t start_journalctl(int output) {
  std::vector<const char*> words = {"journalctl", "-u", "leat", "-n", kLines, "--no-pager", "-q"};
  if (::geteuid() != 0) words.push_back("--user");
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int failed =
      posix_spawnp(&pid, words[0], &actions, nullptr, const_cast<char**>(words.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? pid : 0;
}

// Reads to the end; returns false on a timeout.
bool read_all(int fd, uint64_t bytes_max, std::string& text) {
  const auto until = Clock::now() + kTimeout;
  std::array<char, 65536> piece;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0) {
      return false;
    }
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    text.append(piece.data(), static_cast<size_t>(got));
    if (text.size() > 2 * bytes_max) text.erase(0, text.size() - bytes_max);
  }
}

}  // namespace

std::string service_journal(uint64_t bytes_max) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  const File output(ends[0]);
  File input(ends[1]);
  const pid_t pid = start_journalctl(input.fd());
  input = File();
  if (pid == 0) return "";
  std::string text;
  const bool whole = read_all(output.fd(), bytes_max, text);
  if (!whole) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!whole || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return "";
  if (text.size() > bytes_max) text.erase(0, text.size() - bytes_max);
  return text;
}

}  // namespace leat
