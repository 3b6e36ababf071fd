// SPDX-License-Identifier: Apache-2.0
#include "supervisor/supervised_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <thread>

#include "base/id128.h"
#include "runtime/fd_store.h"
#include "supervisor/supervisor.h"

extern char** environ;

namespace leat {
namespace {

constexpr char kControl[] = "LEAT_TEST_CONTROL";  // path of the test's socket
constexpr char kOptions[] = "LEAT_TEST_SUPERVISED";
constexpr char kMayCloseAlive[] = "LEAT_TEST_MAY_CLOSE_ALIVE";
constexpr int kPatienceMs = 60'000;  // on a timeout the test fails
constexpr int kLost = 3;             // exit status of a daemon after its test has ended
constexpr int kForwarded[] = {SIGTERM, SIGINT, SIGHUP};

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

bool readable(int fd, int timeout_ms = kPatienceMs) {
  pollfd asked{fd, POLLIN, 0};
  return poll(&asked, 1, timeout_ms) == 1;
}

std::string receive(int fd) {
  char text[65536];
  const ssize_t n = recv(fd, text, sizeof text, 0);
  return {text, n > 0 ? static_cast<size_t>(n) : 0};
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  return address;
}

std::string text_of(int fd) {
  char text[256];
  const ssize_t n = pread(fd, text, sizeof text, 0);
  return {text, n > 0 ? static_cast<size_t>(n) : 0};
}

std::string open_descriptors() {
  std::set<int> numbers;
  DIR* directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {  // NOLINT(concurrency-mt-unsafe)
    if (entry->d_name[0] != '.' && std::stoi(entry->d_name) != dirfd(directory)) {
      numbers.insert(std::stoi(entry->d_name));
    }
  }
  closedir(directory);
  return fmt::format("{}", fmt::join(numbers, " "));
}

// Returns a line of /proc/self/status.
std::string status_line(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":\t")) return line.substr(name.size() + 2);
  }
  return "";
}

// One daemon: reports its initial state, then executes commands.
class Life {
 public:
  Life() {
    alive_ = variable("LEAT_ALIVE_FD");
    std::string found = fmt::format(
        "pid={}\nrestarts={}\nnotify={}\ndescriptors={}\nblocked={}\nignored={}\nalive={}\n"
        "executable={}\n",
        getpid(), variable("LEAT_RESTARTS"), variable("NOTIFY_SOCKET"), open_descriptors(),
        status_line("SigBlk"), status_line("SigIgn"), alive_,
        reinterpret_cast<const char*>(getauxval(AT_EXECFN)));
    if (variable(kMayCloseAlive) == "1") unsetenv("LEAT_ALIVE_FD");
    fd_store_ = FdStore::from_environment();
    found += fmt::format("left={}\n", fmt::join(fd_store_.names(), ":"));
    sigset_t set;
    sigemptyset(&set);
    for (int number : kForwarded) sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_ = File(signalfd(-1, &set, SFD_CLOEXEC));
    test_ = File(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const sockaddr_un address = address_of(variable(kControl));
    if (connect(test_.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      _exit(kLost);
    }
    answer(found);
  }

  [[noreturn]] void live() {
    while (true) {
      pollfd asked[] = {{signals_.fd(), POLLIN, 0}, {test_.fd(), POLLIN, 0}};
      poll(asked, 2, -1);
      if (asked[0].revents != 0) {
        signalfd_siginfo info{};
        if (read(signals_.fd(), &info, sizeof info) != sizeof info) _exit(kLost);
        answer(fmt::format("signal {}", info.ssi_signo));
      }
      if (asked[1].revents != 0) {
        const std::string text = receive(test_.fd());
        if (text.empty()) _exit(kLost);
        answer(obey(text));
      }
    }
  }

 private:
  void answer(const std::string& text) {
    if (send(test_.fd(), text.data(), text.size(), MSG_NOSIGNAL) < 0) _exit(kLost);
  }

  std::string obey(const std::string& text) {
    std::istringstream words(text);
    std::string verb, first, rest;
    words >> verb >> first >> std::ws;
    std::getline(words, rest);
    if (verb == "exit") _exit(std::stoi(first));
    if (verb == "die") kill(getpid(), SIGKILL);
    if (verb == "ping") return "pong";
    if (verb == "keep") return keep(first, rest);
    if (verb == "keep-path") return outcome(fd_store_.store(first, opened(rest).fd()));
    if (verb == "add") return add(first, rest);
    if (verb == "drop") fd_store_.remove(first);
    if (verb == "say") return outcome(fd_store_.notify(text.substr(4)));
    if (verb == "orphan") return orphan(first == "bare");
    if (verb == "close-alive") close(std::stoi(alive_));
    if (verb == "report") {
      const File pipe(std::stoi(first));
      if (write(pipe.fd(), "{}", 2) != 2) return "not written";
    }
    return "ok";
  }

  static std::string outcome(const Result<>& result) {
    return result ? "ok" : result.error().to_string();
  }
  static File opened(const std::string& path) {
    return File(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  }
  std::string keep(const std::string& name, const std::string& text) {
    const File file(memfd_create("kept", MFD_CLOEXEC));
    if (write(file.fd(), text.data(), text.size()) < 0) return "not written";
    return outcome(fd_store_.store(name, file.fd()));
  }
  std::string add(const std::string& name, const std::string& text) {
    std::optional<File> file = fd_store_.take(name);
    if (!file) return "nothing was left";
    lseek(file->fd(), 0, SEEK_END);
    if (write(file->fd(), text.data(), text.size()) < 0) return "not written";
    return text_of(file->fd());
  }
  static std::string orphan(bool bare) {
    const pid_t child = fork();
    if (child == 0) {
      if (bare) close_range(0, ~0u, 0);
      while (true) pause();
    }
    return std::to_string(child);
  }

  std::string alive_;
  FdStore fd_store_;
  File signals_;
  File test_;
};

// The role of the test program when a Supervised executes it; otherwise empty.
TEST(SupervisedProcess, Daemon) {
  if (!variable(kControl).empty()) Life().live();
}

TEST(SupervisedProcess, Supervisor) {
  if (variable(kControl).empty()) return;
  SupervisorOptions options;
  const std::string program = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  options.self = {program, "--gtest_filter=SupervisedProcess.Supervisor"};
  options.daemon = {program, "--gtest_filter=SupervisedProcess.Daemon"};
  options.log = [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  int healthy_after_ms, backoff_first_ms, backoff_max_ms, exit_timeout_ms;
  std::istringstream words(variable(kOptions));
  words >> healthy_after_ms >> options.restarts_max >> backoff_first_ms >> backoff_max_ms >>
      exit_timeout_ms >> options.ready_fd >> options.executable;
  options.healthy_after = std::chrono::milliseconds(healthy_after_ms);
  options.backoff_first = std::chrono::milliseconds(backoff_first_ms);
  if (backoff_max_ms > 0) options.backoff_max = std::chrono::milliseconds(backoff_max_ms);
  options.exit_timeout = std::chrono::milliseconds(exit_timeout_ms);
  if (options.executable.empty()) options.executable = program;
  options.log("this is the supervisor of " + program);
  _exit(supervise(std::move(options)));
}

void wait_until(const std::string& what, const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (!holds()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "waited for: " << what;
    std::this_thread::yield();
  }
}

}  // namespace

SupervisedDaemon::SupervisedDaemon(File connection) : connection_(std::move(connection)) {
  std::istringstream lines(next());
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find('=');
    found_[line.substr(0, equals)] = line.substr(equals + 1);
  }
  if (!found_.contains("pid")) found_["pid"] = "0";
}

void SupervisedDaemon::send(const std::string& text) {
  EXPECT_EQ(::send(connection_.fd(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

std::string SupervisedDaemon::command(const std::string& text) {
  send(text);
  return next();
}

std::string SupervisedDaemon::next() {
  EXPECT_TRUE(readable(connection_.fd())) << "a daemon says nothing";
  return receive(connection_.fd());
}

void SupervisedDaemon::end(const std::string& how) {
  EXPECT_EQ(command(how), "");
}

void SupervisedDaemon::killed() {
  EXPECT_EQ(kill(pid(), SIGKILL), 0);
  EXPECT_EQ(next(), "");
}

Supervised::Supervised(const SupervisedOptions& options)
    : directory_(std::filesystem::temp_directory_path() /
                 ("leat-supervised-" + Id128::random().to_hex())) {
  std::filesystem::create_directory(directory_);
  listener_ = File(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(path("control"));
  EXPECT_EQ(bind(listener_.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(listener_.fd(), 8), 0);
  spawn(options);
}

Supervised::~Supervised() {
  // Daemons end when their connections close.
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (testing::Test::HasFailure()) fmt::print("the supervisor said:\n{}", log());
  std::filesystem::remove_all(directory_);
}

void Supervised::spawn(const SupervisedOptions& options) {
  int pipe[2];
  ASSERT_EQ(pipe2(pipe, O_CLOEXEC), 0);
  ready_ = File(pipe[0]);
  const File writer(fcntl(pipe[1], F_DUPFD_CLOEXEC, 100));
  close(pipe[1]);
  const std::string arguments =
      fmt::format("{}={} {} {} {} {} {} {}", kOptions, options.healthy_after_ms,
                  options.restarts_max, options.backoff_first_ms, options.backoff_max_ms,
                  options.exit_timeout_ms, options.ready_fd, options.executable);
  const std::string may = fmt::format("{}={:d}", kMayCloseAlive, options.may_close_alive);
  const std::string control = fmt::format("{}={}", kControl, path("control"));
  const std::string manager = "NOTIFY_SOCKET=" + options.manager;
  std::string filter = "--gtest_filter=SupervisedProcess.Supervisor";
  std::string name = program();
  char* argv[] = {name.data(), filter.data(), nullptr};
  std::vector<char*> variables = {const_cast<char*>(arguments.c_str()),
                                  const_cast<char*>(may.c_str()),
                                  const_cast<char*>(control.c_str())};
  if (!options.manager.empty()) variables.push_back(const_cast<char*>(manager.c_str()));
  for (char** one = environ; *one != nullptr; ++one) variables.push_back(*one);
  variables.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, path("log").c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  if (options.ready_fd >= 0) {
    posix_spawn_file_actions_adddup2(&files, writer.fd(), options.ready_fd);
  }
  // Closes what the test runner left open.
  for (int fd = 3; fd < options.ready_fd; ++fd) posix_spawn_file_actions_addclose(&files, fd);
  posix_spawn_file_actions_addclosefrom_np(&files, std::max(options.ready_fd + 1, 3));
  // State that a parent may leave to the supervisor, and that a daemon must not inherit.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  void (*before)(int) = signal(SIGUSR2, SIG_IGN);
  void (*chld_before)(int) = signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(posix_spawn(&pid_, name.c_str(), &files, &attributes, argv, variables.data()), 0);
  signal(SIGUSR2, before);
  signal(SIGCHLD, chld_before);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
}

SupervisedDaemon Supervised::daemon() {
  EXPECT_TRUE(readable(listener_.fd())) << "no daemon is started";
  File connection(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  return SupervisedDaemon(std::move(connection));
}

bool Supervised::another() const {
  return readable(listener_.fd(), 0);
}

int Supervised::wait() {
  const File process(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  EXPECT_TRUE(readable(process.fd())) << "the supervisor does not end";
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Supervised::log() const {
  std::ifstream file(path("log"));
  return {std::istreambuf_iterator<char>(file), {}};
}

void Supervised::wait_for(const std::string& text, int times) const {
  wait_until(text, [&] {
    const std::string all = log();
    int found = 0;
    for (size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++found;
    return found >= times;
  });
}

std::string Supervised::program() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

WatchedFifo::WatchedFifo(std::string path) : path_(std::move(path)) {
  EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
  reader_ = File(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

bool WatchedFifo::closed() const {
  char byte;
  return read(reader_.fd(), &byte, 1) == 0;
}

void WatchedFifo::wait_until_closed() const {
  wait_until(path_ + " is closed", [this] { return closed(); });
}

}  // namespace leat
