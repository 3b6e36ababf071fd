// SPDX-License-Identifier: Apache-2.0
#include "supervisor/program_start.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/check.h"

extern char** environ;

namespace leat {
namespace {

constexpr int kFirst = 3;  // SD_LISTEN_FDS_START
constexpr int kCannotExecute = 127;

// Places copies of descriptors at consecutive numbers, not close-on-exec. The destructor restores
// the previous descriptors.
class Placement {
 public:
  static Result<Placement> at(int first, std::span<const int> sources);
  Placement(Placement&& other) noexcept
      : first_(other.first_), before_(std::exchange(other.before_, {})) {}
  ~Placement();

 private:
  struct Before {
    int copy = -1;  // beyond all placed numbers; -1: the number was free
    int flags = 0;
  };

  explicit Placement(int first) : first_(first) {}

  int first_;
  std::vector<Before> before_;
};

Result<Placement> Placement::at(int first, std::span<const int> sources) {
  Placement placement(first);
  const int end = first + static_cast<int>(sources.size());
  for (int place = first; place < end; ++place) {
    const int flags = fcntl(place, F_GETFD);
    const int copy = flags < 0 ? -1 : fcntl(place, F_DUPFD_CLOEXEC, end);
    if (flags >= 0 && copy < 0) return error(status_from_errno(errno, "cannot copy a descriptor"));
    placement.before_.push_back({copy, flags});
  }
  for (int place = first; place < end; ++place) {
    int source = sources[static_cast<size_t>(place - first)];
    if (source >= first && source < end) {
      source = placement.before_[static_cast<size_t>(source - first)].copy;
    }
    if (dup2(source, place) < 0) {
      return error(status_from_errno(errno, fmt::format("cannot make descriptor {}", place)));
    }
  }
  return placement;
}

Placement::~Placement() {
  for (size_t i = 0; i < before_.size(); ++i) {
    const int place = first_ + static_cast<int>(i);
    const auto [copy, flags] = before_[i];
    if (copy < 0) {
      close(place);
    } else {
      dup3(copy, place, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
      close(copy);
    }
  }
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

bool of_the_protocol(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  return name == "NOTIFY_SOCKET" || name == "LISTEN_PID" || name == "LISTEN_FDS" ||
         name == "LISTEN_FDNAMES" || name == "LEAT_ALIVE_FD" || name == "LEAT_RESTARTS";
}

std::vector<std::string> environment_of(const ProgramStart& start, int alive) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!of_the_protocol(*variable)) all.emplace_back(*variable);
  }
  std::string names;
  for (const StoredFd& one : start.descriptors) {
    if (!names.empty()) names += ':';
    names += one.name;
  }
  all.push_back(fmt::format("LISTEN_PID={}", getpid()));
  all.push_back(fmt::format("LISTEN_FDS={}", start.descriptors.size()));
  all.push_back("LISTEN_FDNAMES=" + names);
  if (start.alive >= 0) all.push_back(fmt::format("LEAT_ALIVE_FD={}", alive));
  for (const auto& [name, value] : start.environment)
    all.push_back(fmt::format("{}={}", name, value));
  return all;
}

void forget_signals() {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

Status ProgramStart::execute() const {
  LEAT_CHECK(inherited < 0 || descriptors.empty());
  const int first = std::max(kFirst, inherited + 1);
  std::vector<int> sources;
  for (const StoredFd& one : descriptors) sources.push_back(one.file.fd());
  if (alive >= 0) sources.push_back(alive);
  std::vector<std::string> words = arguments;
  std::vector<std::string> variables =
      environment_of(*this, first + static_cast<int>(descriptors.size()));
  rlimit limit_before{};
  if (open_files) getrlimit(RLIMIT_NOFILE, &limit_before);

  Result<Placement> placement = Placement::at(first, sources);
  if (!placement) return placement.error();
  if (inherited >= 0) fcntl(inherited, F_SETFD, 0);
  if (open_files) setrlimit(RLIMIT_NOFILE, &*open_files);
  execve(executable.c_str(), pointers(words).data(), pointers(variables).data());
  const int failed = errno;
  if (open_files) setrlimit(RLIMIT_NOFILE, &limit_before);
  return status_from_errno(failed, "cannot execute " + executable);
}

Result<pid_t> ProgramStart::spawn() const {
  const pid_t pid = fork();
  if (pid < 0) return error(status_from_errno(errno, "cannot start another process"));
  if (pid > 0) {
    // The child does the same; the order is undefined.
    setpgid(pid, pid);
    return pid;
  }
  setpgid(0, 0);
  forget_signals();
  const std::string why = execute().to_string();
  [[maybe_unused]] ssize_t written = write(alive, why.data(), why.size());
  _exit(kCannotExecute);
}

}  // namespace leat
