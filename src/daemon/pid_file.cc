// SPDX-License-Identifier: Apache-2.0
#include "daemon/pid_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "telemetry/log.h"

namespace leat {
namespace {

std::string read_pid(int fd) {
  char text[32] = {};
  ssize_t n = pread(fd, text, sizeof text - 1, 0);
  std::string pid(text, n > 0 ? static_cast<size_t>(n) : 0);
  while (pid.ends_with('\n')) pid.pop_back();
  return pid;
}

}  // namespace

Result<PidFile> PidFile::acquire(const std::string& path, std::chrono::milliseconds timeout) {
  File file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return error(status_from_errno(errno, "cannot open " + path));
  const auto start = std::chrono::steady_clock::now();
  bool said = false;
  while (flock(file.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return error(status_from_errno(errno, "cannot lock " + path));
    const auto waited = std::chrono::steady_clock::now() - start;
    if (!said && waited >= std::chrono::seconds(2)) {
      said = true;
      log::info("waiting for another daemon to end: pid {} holds {}", read_pid(file.fd()), path);
    }
    if (waited >= timeout) {
      return error(StatusCode::kBusy,
                   fmt::format("a daemon runs already: pid {} holds {}; LEAT_RUNTIME_DIR gives "
                               "another one a place of its own",
                               read_pid(file.fd()), path));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(file.fd(), 0) != 0 ||
      pwrite(file.fd(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return error(status_from_errno(errno, "cannot write " + path));
  }
  return PidFile(std::move(file));
}

}  // namespace leat
