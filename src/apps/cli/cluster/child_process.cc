// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/cluster/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <string_view>
#include <thread>

#include "base/text_table.h"
#include "runtime/disk.h"

extern char** environ;

namespace leat {
namespace {

constexpr int kCannotExecute = 127;
constexpr auto kKilled = std::chrono::seconds(2);

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

// Runs in the child of a process with threads: system calls only.
[[noreturn]] void become(const char* executable, char* const* words, char* const* variables,
                         int null, int log, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kCannotExecute);  // the parent died before prctl()
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  close_range(STDERR_FILENO + 1, ~0U, 0);
  // A working directory would keep its file system busy.
  if (chdir("/") == 0) execve(executable, words, variables);
  constexpr std::string_view kWhy = "this program cannot be executed\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, kWhy.data(), kWhy.size());
  _exit(kCannotExecute);
}

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const ChildStart& start) {
  const File null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const File log(::open(start.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!null || !log) return error(status_from_errno(errno, "cannot open " + start.log));
  std::vector<std::string> arguments = start.arguments, environment = start.environment;
  const std::vector<char*> words = pointers(arguments), variables = pointers(environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return error(status_from_errno(errno, "cannot start " + start.name));
  if (pid == 0) {
    become(start.executable.c_str(), words.data(), variables.data(), null.fd(), log.fd(), parent);
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(start, pid));
}

ChildProcess::~ChildProcess() {
  signal(SIGKILL);
  // Does not wait for a child that hangs in the kernel.
  static_cast<void>(ends_within(kKilled));
}

bool ChildProcess::running() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) != 0;
  return !ended_;
}

std::string ChildProcess::exit_description() const {
  if (WIFSIGNALED(status_)) return fmt::format("was killed by signal {}", WTERMSIG(status_));
  return fmt::format("ended with {}", WEXITSTATUS(status_));
}

std::string ChildProcess::last_line() const {
  std::ifstream file(log_);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return printable(last);
}

void ChildProcess::signal(int number) {
  if (!running()) return;
  ::kill(pid_, number);
  ::kill(pid_, SIGCONT);
}

bool ChildProcess::ends_within(std::chrono::milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (running()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

std::vector<std::string> child_environment(const std::vector<std::string>& without) {
  constexpr std::array<std::string_view, 3> kOfAService = {"NOTIFY_SOCKET=", "LISTEN_", "FDSTORE="};
  std::vector<std::string> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const auto begins = [text](std::string_view name) { return text.starts_with(name); };
    if (std::ranges::none_of(kOfAService, begins) && std::ranges::none_of(without, begins)) {
      kept.emplace_back(text);
    }
  }
  return kept;
}

}  // namespace leat
