// SPDX-License-Identifier: Apache-2.0
// ServerProcess: a server program on loopback, with a port and a temporary folder, for the life of
// the object. Its end removes the whole process group and the folder, even if the test is killed. A
// watchdog does that: a shell that waits for the end of a pipe that only the test holds open.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/id128.h"
#include "runtime/disk.h"

namespace leat::testing {

using Command = std::vector<std::string>;

// Returns the path of a program, or empty if there is none. The order: the environment's
// `variable`, the file that tools/setup installed below its folder, a file of that name in PATH or
// root's program folders.
inline std::string find_program(const char* variable, const std::string& below_deps) {
  if (const char* given = std::getenv(variable)) return given;
  std::string path = std::string(LEAT_DEPS_DIR "/") + below_deps;
  if (access(path.c_str(), X_OK) == 0) return path;
  const char* search = std::getenv("PATH");
  std::istringstream folders(std::string(search != nullptr ? search : "") + ":/usr/sbin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    path = folder + "/" + std::filesystem::path(below_deps).filename().string();
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

// `descriptors` become the child's 0, 1 and 2; a negative one means /dev/null. Returns -1 if the
// program cannot run. `environment` is added to the test's own.
inline pid_t spawn(const Command& command, const int (&descriptors)[3],
                   const std::vector<std::string>& environment = {}) {
  std::vector<char*> words, variables;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  auto is_given = [&](std::string_view variable) {
    std::string_view name = variable.substr(0, variable.find('=') + 1);
    return std::ranges::any_of(environment, [&](auto& given) { return given.starts_with(name); });
  };
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!is_given(*variable)) variables.push_back(*variable);
  }
  for (const std::string& given : environment)
    variables.push_back(const_cast<char*>(given.c_str()));
  variables.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (int fd = 0; fd < 3; ++fd) {
    if (descriptors[fd] < 0) {
      posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    } else {
      posix_spawn_file_actions_adddup2(&files, descriptors[fd], fd);
    }
  }
  // A process group of its own: the end kills all of it, and ctrl-C reaches only the test.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t process = -1;
  if (posix_spawnp(&process, words[0], &files, &attributes, words.data(), variables.data()) != 0) {
    process = -1;
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return process;
}

struct ProgramResult {
  int status;  // from waitpid: 0 is success
  std::string output;
};

// Runs a program to its end. It shares the test's stderr.
inline ProgramResult run_program(const Command& command) {
  int ends[2];
  LEAT_CHECK(pipe2(ends, O_CLOEXEC) == 0);
  File reading(ends[0]), writing(ends[1]);
  pid_t process = spawn(command, {-1, writing.fd(), 2});
  writing = File();
  if (process < 0) return {-1, "cannot run " + command[0]};
  ProgramResult result;
  char buffer[65536];
  for (ssize_t size; (size = ::read(reading.fd(), buffer, sizeof buffer)) > 0;) {
    result.output.append(buffer, static_cast<size_t>(size));
  }
  LEAT_CHECK(waitpid(process, &result.status, 0) == process);
  return result;
}

// Returns the body that curl receives. Fails the test if curl fails.
inline std::string curl(Command arguments) {
  arguments.insert(arguments.begin(),
                   {"curl", "-sS", "--fail-with-body", "--noproxy", "*", "--globoff"});
  ProgramResult result = run_program(arguments);
  if (result.status != 0) {
    ADD_FAILURE() << "curl failed: " << arguments.back() << "\n" << result.output;
  }
  return result.output;
}

// Encodes a key for a URL. `kept` lists characters that are not encoded beside letters, digits and
// "-._~".
inline std::string percent_encoded(std::string_view key, std::string_view kept = "/") {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (char c : key) {
    auto byte = static_cast<unsigned char>(c);
    if ((byte < 128 && isalnum(byte) != 0) || std::string_view("-._~").contains(c) ||
        kept.contains(c)) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

// Replaces a file below a server's folder atomically. Servers derive versions from a modification
// time in whole seconds. So each file gets a time one second after the previous one. Directories
// are writable for the server, too, whatever its user.
inline void put_file(const std::filesystem::path& folder, const std::string& key,
                     std::string_view content) {
  namespace fs = std::filesystem;
  static auto time = fs::file_time_type::clock::now() - std::chrono::hours(48);
  fs::path path = folder / key, written = folder.parent_path() / "put";
  for (fs::path part = folder; const fs::path& name : fs::path(key).parent_path()) {
    part /= name;
    if (fs::create_directory(part)) fs::permissions(part, fs::perms::all);
  }
  std::ofstream(written, std::ios::binary) << content;
  fs::last_write_time(written, time += std::chrono::seconds(1));
  fs::rename(written, path);
}

class ServerProcess {
 public:
  explicit ServerProcess(const std::string& name)
      : folder_(std::filesystem::temp_directory_path() /
                ("leat-" + name + "-" + Id128::random().to_hex())),
        port_(free_port()) {
    std::filesystem::create_directories(folder_);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() {
    reap();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  const std::filesystem::path& folder() const { return folder_; }
  uint16_t port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string endpoint() const { return "http://" + address(); }

  // Runs the server and waits until `port` is open. Returns false, with the server's output, if it
  // ends before that or takes longer than `limit_s`.
  bool launch(const Command& command, const std::vector<std::string>& environment = {},
              int limit_s = 30) {
    std::filesystem::path log = folder_ / "server.log";
    File output(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    process_ = spawn(command, {-1, output.fd(), output.fd()}, environment);
    bool up =
        process_ > 0 && start_watchdog() && wait_until([this] { return is_open(port_); }, limit_s);
    if (!up) std::cerr << command[0] << " did not start:\n" << std::ifstream(log).rdbuf() << "\n";
    return up;
  }

  // Kills the server with SIGKILL. The folder keeps its content, and launch() may follow.
  void end() { reap(); }
  void send_signal(int signal) const { kill(-process_, signal); }

  // Polls a condition, such as an open port.
  template <typename Condition>
  bool wait_until(Condition condition, int limit_s = 30, int pause_ms = 10) const {
    for (int tries = 0; tries < limit_s * 1000 / pause_ms; ++tries) {
      if (condition()) return true;
      siginfo_t ended{};
      waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT);
      if (ended.si_pid != 0) return false;
      poll(nullptr, 0, pause_ms);
    }
    return false;
  }

  // Returns a file in the folder with this content, for a program to send; always the same file.
  std::string upload(std::string_view content) const {
    std::filesystem::path file = folder_ / "upload";
    std::ofstream(file, std::ios::binary) << content;
    return file.string();
  }

  // Returns a port below the ranges that the kernel assigns to connections and to port 0. A UDP
  // socket reserves the port against other test processes until this one ends, and does not disturb
  // servers. As in tests/rig/store.py.
  static uint16_t free_port() {
    static std::vector<File> marks;
    std::random_device random;
    std::uniform_int_distribution<unsigned> ports(12'000, 31'999);
    while (true) {
      const auto port = static_cast<uint16_t>(ports(random));
      File mark(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      File probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      LEAT_CHECK(mark && probe);
      if (!binds(mark, port) || !binds(probe, port)) continue;
      marks.push_back(std::move(mark));
      return port;
    }
  }

  static bool is_open(uint16_t port) {
    File client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = loopback(port);
    return connect(client.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

 private:
  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  static bool binds(const File& socket, uint16_t port) {
    const sockaddr_in address = loopback(port);
    return bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  void reap() {
    if (process_ > 0) kill(-process_, SIGKILL);
    for (pid_t* started : {&process_, &watchdog_}) {
      if (*started <= 0) continue;
      kill(*started, SIGKILL);
      waitpid(*started, nullptr, 0);
      *started = -1;
    }
  }

  // The second removal covers files that the killed group was still writing.
  bool start_watchdog() {
    static constexpr char kWatchdog[] =
        "read -r _; kill -s KILL -- \"-$1\"; rm -rf -- \"$2\"; sleep 1; rm -rf -- \"$2\"";
    int ends[2];
    LEAT_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    File reading(ends[0]);
    life_ = File(ends[1]);
    watchdog_ =
        spawn({"/bin/sh", "-c", kWatchdog, "watchdog", std::to_string(process_), folder_.string()},
              {reading.fd(), -1, -1});
    return watchdog_ > 0;
  }

  std::filesystem::path folder_;
  uint16_t port_;
  pid_t process_ = -1;
  pid_t watchdog_ = -1;
  File life_;  // closed by the kernel when the test dies
};

}  // namespace leat::testing
