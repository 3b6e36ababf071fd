// SPDX-License-Identifier: Apache-2.0
#include "apps/daemon/supervision.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "apps/supervisor/supervisor.h"
#include "config/config.h"

namespace leat {
namespace {

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

// Of the file that this program was started from; what was installed over it since has that path.
std::string own_executable() {
  constexpr std::string_view kReplaced = " (deleted)";
  std::error_code failed;
  std::string path = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return "/proc/self/exe";
  if (path.ends_with(kReplaced)) path.resize(path.size() - kReplaced.size());
  return path;
}

// Standard error is the log file where the daemon has one. A line as telemetry/log writes it.
void say(const std::string& text) {
  const auto now = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  fmt::print(stderr, "{:%FT%T}.{:06}+00:00 info supervisor: {}\n", seconds, (now - seconds).count(),
             text);
}

}  // namespace

uint64_t restarts_so_far() {
  const char* text = std::getenv("LEAT_RESTARTS");
  uint64_t restarts = 0;
  if (text != nullptr) std::from_chars(text, text + std::string_view(text).size(), restarts);
  return restarts;
}

void supervise_if_wanted(const DaemonRun& run, int ready_fd) {
  if (std::getenv("NOTIFY_SOCKET") != nullptr) return;
  // What is wrong with it the daemon says, to whom it should.
  Result<Config> config = read_daemon_config(run);
  if (!config || !config->boolean("daemon.supervised")) return;
  SupervisorOptions options;
  options.daemon = options.self = own_arguments();
  options.executable = own_executable();
  options.ready_fd = ready_fd;
  options.say = &say;
  std::exit(supervise(std::move(options)));
}

}  // namespace leat
