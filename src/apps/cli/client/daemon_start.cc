// SPDX-License-Identifier: Apache-2.0
// The two processes share a pipe. End of file without data means that the daemon ended without a
// report. Otherwise it sends one line of JSON: {} or {"error": …}, as on the control socket.
#include "apps/cli/client/daemon_start.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "config/paths.h"
#include "runtime/disk.h"

extern char** environ;

namespace leat {
namespace {

constexpr std::array<std::string_view, 6> kServiceVariables = {"NOTIFY_SOCKET", "LISTEN_PID",
                                                               "LISTEN_FDS",    "LISTEN_FDNAMES",
                                                               "LEAT_ALIVE_FD", "LEAT_RESTARTS"};
constexpr int kReadyFd = 3;  // where the daemon gets its end of the pipe

std::vector<std::string> daemon_arguments(const DaemonStart& start) {
  std::vector<std::string> arguments = {"leat",          "daemon",
                                        "--runtime-dir", start.runtime,
                                        "--ready-fd",    std::to_string(kReadyFd),
                                        "--log-file",    daemon_log(start.runtime)};
  if (!start.config.empty()) arguments.insert(arguments.end(), {"--config", start.config});
  for (const auto& [name, value] : start.settings) {
    arguments.insert(arguments.end(), {"--set", fmt::format("{}={}", name, value)});
  }
  return arguments;
}

// Returns the environment without the service manager's variables: the daemon is not the manager's
// service.
std::vector<char*> daemon_environment() {
  std::vector<char*> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const bool of_a_service = std::ranges::any_of(kServiceVariables, [&](std::string_view name) {
      return text.starts_with(name) && text.substr(name.size()).starts_with('=');
    });
    if (!of_a_service) kept.push_back(*variable);
  }
  kept.push_back(nullptr);
  return kept;
}

Result<pid_t> spawn(const DaemonStart& start, int ready) {
  std::vector<std::string> arguments = daemon_arguments(start);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::string log = daemon_log(start.runtime);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&files, ready, kReadyFd);
  // The daemon would keep inherited descriptors of the caller open for its whole life.
  posix_spawn_file_actions_addclosefrom_np(&files, kReadyFd + 1);
  // The caller's working directory would keep its file system busy for ever.
  posix_spawn_file_actions_addchdir_np(&files, "/");
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t pid = 0;
  std::vector<char*> environment = daemon_environment();
  int failed =
      posix_spawn(&pid, "/proc/self/exe", &files, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return error(status_from_errno(failed, "cannot start the daemon"));
  return pid;
}

std::string read_all(int fd) {
  std::string text;
  char piece[4096];
  while (true) {
    ssize_t n = ::read(fd, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(piece, static_cast<size_t>(n));
  }
}

Failure ended_silently(const DaemonStart& start, pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  std::string how = WIFSIGNALED(status) ? fmt::format("was killed by signal {}", WTERMSIG(status))
                                        : fmt::format("ended with {}", WEXITSTATUS(status));
  return Status(StatusCode::kUnavailable,
                fmt::format("the daemon {} before it was ready; its log is {}", how,
                            daemon_log(start.runtime)));
}

}  // namespace

CommandResult<> start_daemon(const DaemonStart& start) {
  LEAT_CHECK_OK(make_runtime_directory(start.runtime));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return std::unexpected(Failure(status_from_errno(errno, "cannot make a pipe")));
  }
  File reader(ends[0]);
  File writer(ends[1]);
  if (writer.fd() == kReadyFd) {
    // A dup2 of a descriptor to itself would leave it close-on-exec.
    writer = File(fcntl(ends[1], F_DUPFD_CLOEXEC, kReadyFd + 1));
  }
  LEAT_TRY(pid_t pid, spawn(start, writer.fd()));
  writer = File();
  std::string answer = read_all(reader.fd());
  if (answer.empty()) return std::unexpected(ended_silently(start, pid));
  LEAT_TRY(Json json, parse_json(answer, "the daemon's start report"));
  if (!json.contains("error")) return {};
  waitpid(pid, nullptr, 0);
  HttpResponse response;
  response.body = answer;
  return std::unexpected(Failure(status_of(response)));
}

void report_ready(int fd, const Result<>& outcome) {
  if (fd < 0) return;
  File pipe(fd);
  std::string text = outcome ? "{}" : error_response(outcome.error()).body;
  // The parent may have ended; then the report is not needed.
  [[maybe_unused]] ssize_t written = ::write(pipe.fd(), text.data(), text.size());
}

}  // namespace leat
