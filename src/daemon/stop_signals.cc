// SPDX-License-Identifier: Apache-2.0
#include "daemon/stop_signals.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>

#include "base/check.h"

namespace leat {
namespace {

// A person does not send a second signal sooner.
constexpr auto kSameWish = std::chrono::milliseconds(100);

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signals_ = File(signalfd(-1, &set, SFD_CLOEXEC));
  quit_ = File(eventfd(0, EFD_CLOEXEC));
  LEAT_CHECK(signals_ && quit_);
  thread_ = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
  eventfd_write(quit_.fd(), 1);
  thread_.join();
}

void StopSignals::watch() {
  std::optional<std::chrono::steady_clock::time_point> first;
  while (true) {
    std::array<pollfd, 2> wanted = {pollfd{signals_.fd(), POLLIN, 0},
                                    pollfd{quit_.fd(), POLLIN, 0}};
    if (poll(wanted.data(), wanted.size(), -1) < 0) continue;
    if (wanted[1].revents != 0) return;
    signalfd_siginfo info{};
    if (read(signals_.fd(), &info, sizeof info) != sizeof info) continue;
    const auto now = std::chrono::steady_clock::now();
    if (first && now - *first < kSameWish) continue;
    if (first) _exit(128 + static_cast<int>(info.ssi_signo));
    first = now;
    signalled_ = true;
    request(fmt::format("signal {} from pid {}", info.ssi_signo, info.ssi_pid));
  }
}

void StopSignals::request(std::string reason) {
  std::lock_guard lock(mutex_);
  if (reason_.empty()) reason_ = std::move(reason);
  changed_.notify_all();
}

std::string StopSignals::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !reason_.empty(); });
  return reason_;
}

}  // namespace leat
