// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/command/interrupt.h"

#include <signal.h>

#include <atomic>

namespace leat {
namespace {

std::atomic<int> noted_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int signal) {
  noted_signal = signal;
}

}  // namespace

InterruptWatch::InterruptWatch() {
  noted_signal = 0;
  struct sigaction action{};
  action.sa_handler = &on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction now{};
    if (sigaction(kSignals[i], nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    sigaction(kSignals[i], &action, nullptr);
    installed_[i] = true;
  }
}

InterruptWatch::~InterruptWatch() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    if (installed_[i]) sigaction(kSignals[i], &action, nullptr);
  }
}

int InterruptWatch::signal_received() {
  return noted_signal;
}

ExitCode exit_code_of_signal(int signal) {
  return static_cast<ExitCode>(128 + signal);
}

}  // namespace leat
