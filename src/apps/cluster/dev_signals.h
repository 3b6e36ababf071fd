// SPDX-License-Identifier: Apache-2.0
// DevSignals: SIGINT, SIGTERM and SIGHUP as something to ask for, and ends of children that cut a
// wait short. For the thread that made it, which is the only one by then.
#pragma once

#include <signal.h>

#include <chrono>
#include <ctime>

namespace leat {

class DevSignals {
 public:
  // All threads that start later have them blocked.
  DevSignals() {
    sigemptyset(&set_);
    for (int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set_, number);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    signal(SIGPIPE, SIG_IGN);
  }

  // Whether one of the three came within `patience`, once for each. False earlier where a child
  // ended.
  bool asked_to_end(std::chrono::milliseconds patience) const {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(patience);
    const timespec limit{
        .tv_sec = static_cast<time_t>(seconds.count()),
        .tv_nsec = static_cast<long>(std::chrono::nanoseconds(patience - seconds).count())};
    const int number = sigtimedwait(&set_, nullptr, &limit);
    return number > 0 && number != SIGCHLD;
  }

 private:
  sigset_t set_{};
};

}  // namespace leat
