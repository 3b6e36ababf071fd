// SPDX-License-Identifier: Apache-2.0
// One loop over poll(2). At any time there is a daemon, or a time for the next start, or the exit
// status of this process.
#include "supervisor/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "runtime/context.h"
#include "runtime/fd_store.h"
#include "supervisor/fd_store_server.h"
#include "supervisor/program_start.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr int kForwardedSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
// Descriptors of this process beside the stored ones, with a reserve.
constexpr rlim_t kOwnDescriptors = 64;

std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): there are no threads
  int number = 0;
  if (text == nullptr) return {};
  const std::string_view all = text;
  auto [end, failed] = std::from_chars(all.data(), all.data() + all.size(), number);
  if (failed != std::errc() || end != all.data() + all.size() || number < 0) return {};
  return number;
}

// Returns the number of earlier daemons if this process continues the work of another supervisor.
std::optional<int> restarts_before() {
  if (number_in("LISTEN_PID") != getpid()) return {};
  return number_in("LEAT_RESTARTS");
}

// The end of a daemon, as in waitpid(2).
struct End {
  std::optional<int> status;  // empty: not known yet

  bool exited_with(int code) const {
    return status && WIFEXITED(*status) && WEXITSTATUS(*status) == code;
  }
  // Returns the exit status in the form of shells.
  int exit_status() const {
    if (!status) return 128 + SIGKILL;
    return WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
  }
  std::string describe() const {
    if (!status) return "was killed and does not end";
    return WIFEXITED(*status) ? fmt::format("ended with {}", WEXITSTATUS(*status))
                              : fmt::format("was killed by signal {}", WTERMSIG(*status));
  }
};

class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options) : options_(std::move(options)) {}
  int run();

 private:
  struct Daemon {
    pid_t pid = -1;
    File alive;                                     // closed here once the daemon's end is closed
    std::optional<Clock::time_point> overdue = {};  // deadline for its exit after that
    std::optional<Clock::time_point> ready = {};    // time of READY=1
    bool stop_requested = false;
    bool takeover = false;
    std::string next = {};
  };

  Result<> set_up();
  bool holds_descriptors() const { return !store_->descriptors().empty(); }
  void take_signals();
  void raise_limit();
  void run_once();
  int poll_timeout() const;

  void start();
  Result<Daemon> spawn();
  void receive_notifications();
  void read_alive();
  void on_signals();
  void forward(int number);
  void reap();
  void on_end(End end);
  void on_death(const std::string& how, int exit_status, Clock::duration lived);
  void execute_successor(const std::string& next);
  void notify_manager(const char* what);

  SupervisorOptions options_;
  std::optional<FdStoreServer> store_;
  // The service manager of this process: systemd, or another one with its protocol.
  FdStore manager_;
  std::string manager_address_;
  File signals_;
  std::optional<rlimit> limit_before_;  // limit of open files before it was raised
  std::optional<Daemon> daemon_;
  std::optional<Clock::time_point> next_start_;
  std::optional<int> exit_status_;
  std::vector<pid_t> unreaped_;  // still running after `exit_timeout`
  int starts_ = 0;
  int quick_deaths_ = 0;  // in a row
  bool ready_once_ = false;
  std::vector<int> pending_signals_;  // to forward once a daemon is ready
};

int Supervisor::run() {
  if (Result<> made = set_up(); !made) {
    options_.log("no daemon is started: " + made.error().to_string());
    return 1;
  }
  start();
  while (!exit_status_) run_once();
  return *exit_status_;
}

Result<> Supervisor::set_up() {
  prctl(PR_SET_NAME, "leat-supervisor");
  take_signals();
  if (!signals_) return error(status_from_errno(errno, "cannot make a signalfd"));
  if (std::optional<int> before = restarts_before()) {
    starts_ = *before;
    ready_once_ = true;
    options_.ready_fd = -1;
  }
  if (const char* address = std::getenv("NOTIFY_SOCKET")) manager_address_ = address;
  FdStore left = FdStore::from_environment();
  if (!left.names().empty()) options_.ready_fd = -1;
  raise_limit();
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  // Stored descriptors are open twice while a program starts with them.
  const rlim_t available = std::max(limit.rlim_cur, kOwnDescriptors) - kOwnDescriptors;
  LEAT_TRY(FdStoreServer store,
           FdStoreServer::open(available / 2, options_.log, options_.socket_path));
  store_ = std::move(store);
  for (const std::string& name : left.names()) {
    if (name == options_.lock_name) {
      options_.lock = *left.take(name);
      continue;
    }
    if (!store_->add(name, *left.take(name))) {
      options_.log(fmt::format("'{}' of the previous supervisor is not stored", name));
    }
  }
  manager_ = std::move(left);
  return {};
}

void Supervisor::take_signals() {
  // An ignored SIGCHLD would lose exit statuses; a log without a reader is no reason to end.
  signal(SIGCHLD, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (int number : kForwardedSignals) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = File(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

void Supervisor::raise_limit() {
  const rlim_t wanted = 2 * FdStoreServer::kDescriptorsMax + kOwnDescriptors;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  const rlimit raised{.rlim_cur = std::min(wanted, limit.rlim_max), .rlim_max = limit.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit_before_ = limit;
}

void Supervisor::run_once() {
  std::array<pollfd, 3> wanted = {pollfd{store_->fd(), POLLIN, 0},
                                  pollfd{daemon_ ? daemon_->alive.fd() : -1, POLLIN, 0},
                                  pollfd{signals_.fd(), POLLIN, 0}};
  if (poll(wanted.data(), wanted.size(), poll_timeout()) < 0) return;
  if (wanted[0].revents != 0) receive_notifications();
  if (wanted[1].revents != 0) read_alive();
  if (wanted[2].revents != 0) on_signals();
  if (exit_status_) return;
  const Clock::time_point now = Clock::now();
  if (daemon_ && daemon_->overdue && now >= *daemon_->overdue) {
    unreaped_.push_back(daemon_->pid);
    on_end({});
  } else if (next_start_ && now >= *next_start_) {
    start();
  }
}

int Supervisor::poll_timeout() const {
  const std::optional<Clock::time_point> until = daemon_ ? daemon_->overdue : next_start_;
  if (!until) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*until - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
}

void Supervisor::start() {
  next_start_.reset();
  store_->close_hung_up();
  Result<Daemon> spawned = spawn();
  ++starts_;
  if (options_.ready_fd >= 0) close(std::exchange(options_.ready_fd, -1));
  if (!spawned) {
    on_death(spawned.error().to_string(), 1, Clock::duration::zero());
    return;
  }
  daemon_ = std::move(*spawned);
}

Result<Supervisor::Daemon> Supervisor::spawn() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return error(status_from_errno(errno, "cannot make a pipe"));
  Daemon daemon{.alive = File(ends[0])};
  const File write_end(ends[1]);
  LEAT_TRY(daemon.pid, ProgramStart{.executable = options_.executable,
                                    .arguments = options_.daemon,
                                    .environment = {{"NOTIFY_SOCKET", store_->address()},
                                                    {"LEAT_RESTARTS", std::to_string(starts_)}},
                                    .descriptors = store_->descriptors(),
                                    .alive = write_end.fd(),
                                    .inherited = options_.ready_fd,
                                    .open_files = limit_before_}
                           .spawn());
  return daemon;
}

void Supervisor::receive_notifications() {
  FdStoreServer::Notifications received = store_->receive(daemon_ ? daemon_->pid : -1);
  if (!daemon_) return;
  if (received.ready && !daemon_->ready) {
    daemon_->ready = Clock::now();
    // Once: a service manager would take a later one for the end of a reload.
    if (!ready_once_) notify_manager("READY=1");
    for (int number : std::exchange(pending_signals_, {})) forward(number);
  }
  daemon_->takeover |= received.takeover;
  ready_once_ |= received.ready;
  if (!received.next.empty()) daemon_->next = std::move(received.next);
}

void Supervisor::read_alive() {
  char why[512];
  const ssize_t n = read(daemon_->alive.fd(), why, sizeof why);
  if (n > 0) {
    options_.log(fmt::format("the daemon: {}", std::string_view(why, static_cast<size_t>(n))));
  } else if (n == 0) {
    daemon_->alive = File();
    daemon_->overdue = Clock::now() + options_.exit_timeout;
  }
}

void Supervisor::on_signals() {
  signalfd_siginfo info{};
  while (!exit_status_ && read(signals_.fd(), &info, sizeof info) == sizeof info) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) {
      reap();
    } else if (daemon_ && (daemon_->ready || !holds_descriptors())) {
      forward(number);
    } else if (holds_descriptors()) {
      pending_signals_.push_back(number);
      if (next_start_) next_start_ = Clock::now();
    } else {
      options_.log(fmt::format("signal {} while there is no daemon: no other is started", number));
      exit_status_ = 0;
    }
  }
}

void Supervisor::forward(int number) {
  if (!daemon_->stop_requested) notify_manager("STOPPING=1");
  // Not reaped yet, so its pid is still valid.
  daemon_->stop_requested = true;
  kill(daemon_->pid, number);
}

void Supervisor::reap() {
  // Includes orphans that this process has adopted, as the first process in a container does.
  int status = 0;
  pid_t pid = 0;
  while (!exit_status_ && (pid = waitpid(-1, &status, WNOHANG)) > 0) {
    const End end{status};
    if (daemon_ && pid == daemon_->pid) {
      on_end(end);
    } else if (std::erase(unreaped_, pid) > 0) {
      options_.log(fmt::format("the previous daemon, pid {}, {} at last", pid, end.describe()));
    }
  }
}

void Supervisor::on_end(End end) {
  receive_notifications();  // messages that it sent in time
  if (daemon_->alive) read_alive();
  const Daemon dead = std::move(*daemon_);
  daemon_.reset();
  store_->close_hung_up();
  const std::string how = fmt::format("the daemon, pid {}, {}", dead.pid, end.describe());
  const bool takeover =
      dead.ready && (end.exited_with(kExitTakeover) || (!end.status && dead.takeover));
  const auto lived = dead.ready ? Clock::now() - *dead.ready : Clock::duration::zero();
  const bool killed = !end.status || WIFSIGNALED(*end.status);
  if (dead.stop_requested && holds_descriptors() && (takeover || killed)) {
    // Stored descriptors need a daemon that ends in order.
    pending_signals_.push_back(SIGTERM);
    if (takeover) {
      next_start_ = Clock::now();
    } else {
      on_death(how, end.exit_status(), lived);
    }
  } else if (dead.stop_requested || end.exited_with(0)) {
    exit_status_ = end.exited_with(kExitTakeover) ? 0 : end.exit_status();
    if (exit_status_ != 0) options_.log(how + " after a request to end");
  } else if (takeover) {
    execute_successor(dead.next);
  } else {
    on_death(how, end.exit_status(), lived);
  }
}

void Supervisor::on_death(const std::string& how, int exit_status, Clock::duration lived) {
  if (!ready_once_ && !holds_descriptors()) {
    options_.log(how + " before it was ready");
    exit_status_ = exit_status;
    return;
  }
  quick_deaths_ = lived < options_.healthy_after ? quick_deaths_ + 1 : 0;
  if (quick_deaths_ >= options_.restarts_max) {
    options_.log(fmt::format("{}, as {} before it soon after its start: no other is started", how,
                             quick_deaths_ - 1));
    exit_status_ = 1;
    return;
  }
  milliseconds backoff{0};
  for (int death = 2; death <= quick_deaths_; ++death) {
    backoff = std::min(death == 2 ? options_.backoff_first : 2 * backoff, options_.backoff_max);
  }
  options_.log(fmt::format("{}; the next one gets its {} descriptors in {} ms", how,
                           store_->descriptors().size(), backoff.count()));
  next_start_ = Clock::now() + backoff;
}

void Supervisor::execute_successor(const std::string& next) {
  quick_deaths_ = 0;
  const std::string executable = next.empty() ? options_.executable : next;
  options_.log(
      fmt::format("{} takes over, with {} descriptors", executable, store_->descriptors().size()));
  if (options_.lock) {
    store_->add(options_.lock_name, File(fcntl(options_.lock.fd(), F_DUPFD_CLOEXEC, 3)));
  }
  std::vector<std::pair<std::string, std::string>> environment = {
      {"LEAT_RESTARTS", std::to_string(starts_)}};
  if (manager_.available()) environment.emplace_back("NOTIFY_SOCKET", manager_address_);
  const Status why_not = ProgramStart{.executable = executable,
                                      .arguments = options_.self,
                                      .environment = std::move(environment),
                                      .descriptors = store_->descriptors(),
                                      .open_files = limit_before_}
                             .execute();
  store_->remove(options_.lock_name);
  options_.log(fmt::format("{}; {} continues", why_not.to_string(), options_.executable));
  next_start_ = Clock::now();
}

void Supervisor::notify_manager(const char* what) {
  if (!manager_.available()) return;
  if (Result<> sent = manager_.notify(what); !sent) options_.log(sent.error().to_string());
}

}  // namespace

int supervise(SupervisorOptions options) {
  LEAT_CHECK(!options.daemon.empty() && !options.self.empty() && !options.executable.empty());
  if (!options.log) options.log = [](const std::string&) {};
  return Supervisor(std::move(options)).run();
}

}  // namespace leat
