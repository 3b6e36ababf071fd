// SPDX-License-Identifier: Apache-2.0
// DevSignals: SIGINT, SIGTERM and SIGHUP as a query; SIGCHLD ends a wait early. Only for the thread
// that created it, which must be the only one at that time.
#pragma once

#include <signal.h>

#include <chrono>
#include <ctime>

namespace leat {

class DevSignals {
 public:
  // All later threads inherit the blocked signals.
  DevSignals() {
    sigemptyset(&set_);
    for (int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set_, number);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    signal(SIGPIPE, SIG_IGN);
  }

  // Returns whether one of the three arrived within `timeout`, once for each. Returns false
  // earlier if a child ended.
  bool stop_requested(std::chrono::milliseconds timeout) const {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(timeout);
    const timespec limit{
        .tv_sec = static_cast<time_t>(seconds.count()),
        .tv_nsec = static_cast<long>(std::chrono::nanoseconds(timeout - seconds).count())};
    const int number = sigtimedwait(&set_, nullptr, &limit);
    return number > 0 && number != SIGCHLD;
  }

 private:
  sigset_t set_{};
};

}  // namespace leat
