// SPDX-License-Identifier: Apache-2.0
// InterruptWatch: while it lives, the first SIGINT, SIGTERM or SIGHUP is noted and not acted on, so
// that a command can end in order. The next one ends the process. One at a time.
#pragma once

#include <signal.h>

#include <iterator>

#include "apps/command.h"

namespace leat {

class InterruptWatch {
 public:
  // Signals that the process was started to ignore stay ignored.
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;

  // The signal that was noted; 0: none. Thread-safe.
  static int noted();

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  bool taken_[std::size(kSignals)] = {};
};

// 130 for SIGINT, as a shell counts it: 128 and the signal.
ExitCode exit_code_of_signal(int signal);

}  // namespace leat
