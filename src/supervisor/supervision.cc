// SPDX-License-Identifier: Apache-2.0
#include "supervisor/supervision.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/paths.h"
#include "daemon/pid_file.h"
#include "supervisor/supervisor.h"

namespace leat {
namespace {

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

// Returns the path from which this program was started. A version installed over it since has the
// same path.
std::string own_executable() {
  constexpr std::string_view kReplaced = " (deleted)";
  std::error_code failed;
  std::string path = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return "/proc/self/exe";
  if (path.ends_with(kReplaced)) path.resize(path.size() - kReplaced.size());
  return path;
}

// Writes a line like telemetry/log. Standard error is the log file if the daemon has one.
void log_line(const std::string& text) {
  const auto now = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  fmt::print(stderr, "{:%FT%T}.{:06}+00:00 info supervisor: {}\n", seconds, (now - seconds).count(),
             text);
}

// Wait for a supervisor that is about to end.
constexpr auto kPredecessorTimeout = std::chrono::seconds(5);

std::string lock_file(const std::string& runtime) {
  return runtime + "/supervisor.lock";
}

bool has_variable(const char* name) {
  return std::getenv(name) != nullptr;
}

// Our supervisor after an execve of itself; the lock is among its stored descriptors.
bool resumes_supervision() {
  const char* pid = std::getenv("LISTEN_PID");
  return pid != nullptr && pid == std::to_string(::getpid()) && has_variable("LEAT_RESTARTS");
}

}  // namespace

bool is_supervised(const std::string& runtime) {
  const File file(::open(lock_file(runtime).c_str(), O_RDWR | O_CLOEXEC));
  // A shared lock, so that concurrent queries do not disturb each other.
  return file && ::flock(file.fd(), LOCK_SH | LOCK_NB) != 0;
}

bool has_supervisor() {
  return has_variable("NOTIFY_SOCKET") &&
         (has_variable("LEAT_ALIVE_FD") || has_variable("FDSTORE"));
}

uint64_t restarts_so_far() {
  const char* text = resumes_supervision() ? std::getenv("LEAT_RESTARTS") : nullptr;
  uint64_t restarts = 0;
  if (text != nullptr) std::from_chars(text, text + std::string_view(text).size(), restarts);
  // A supervisor after an execve reads the variable itself.
  if (text == nullptr || has_variable("LEAT_ALIVE_FD")) ::unsetenv("LEAT_RESTARTS");
  return restarts;
}

Result<> supervise_if_wanted(const DaemonRun& run, int ready_fd) {
  if (has_supervisor()) return {};
  // The daemon reports errors of its configuration to its parent.
  Result<Config> config = read_daemon_config(run);
  if (!config || !config->boolean("daemon.supervised")) return {};
  SupervisorOptions options;
  if (!resumes_supervision()) {
    LEAT_CHECK_OK(make_runtime_directory(run.runtime));
    LEAT_TRY(PidFile lock, PidFile::acquire(lock_file(run.runtime), kPredecessorTimeout));
    options.lock = std::move(lock).take();
  }
  options.socket_path = run.runtime + "/keep.sock";
  options.daemon = options.self = own_arguments();
  options.executable = own_executable();
  options.ready_fd = ready_fd;
  options.log = &log_line;
  std::exit(supervise(std::move(options)));
}

}  // namespace leat
