// SPDX-License-Identifier: Apache-2.0
// InterruptWatch: records the first SIGINT, SIGTERM or SIGHUP while it lives, so that a command can
// end in order. The next signal ends the process. One instance at a time.
#pragma once

#include <signal.h>

#include <iterator>

#include "apps/cli/command/command.h"

namespace leat {

class InterruptWatch {
 public:
  // Signals that the process ignores from its start stay ignored.
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;

  // Returns the recorded signal; 0: none. Thread-safe.
  static int signal_received();

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  bool installed_[std::size(kSignals)] = {};
};

// Returns 130 for SIGINT, as shells do: 128 and the signal.
ExitCode exit_code_of_signal(int signal);

}  // namespace leat
