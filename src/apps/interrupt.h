// SPDX-License-Identifier: Apache-2.0
// InterruptWatch: records the first SIGINT, SIGTERM or SIGHUP while it lives, so that a command can
// end in order. The next signal ends the process. One instance at a time.
#pragma once

#include <signal.h>

#include <iterator>

#include "apps/command.h"

namespace leat {

class InterruptWatch {
 public:
  // Signals that the process ignores from its start stay ignored.
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;

  // Returns the recorded signal; 0: none. Thread-safe.
  static int noted();

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  bool taken_[std::size(kSignals)] = {};
};

// Returns 130 for SIGINT, as shells do: 128 and the signal.
ExitCode exit_code_of_signal(int signal);

}  // namespace leat
