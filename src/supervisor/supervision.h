// SPDX-License-Identifier: Apache-2.0
// Decides whether this process becomes the daemon, or the supervisor that starts it.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/daemon_options.h"

namespace leat {

// Returns whether a supervisor of that runtime directory lives.
bool is_supervised(const std::string& runtime);

// Returns whether a supervisor started this process, ours or systemd (from 254 on, with an fd
// store).
bool has_supervisor();

// Returns the number of earlier daemons of our supervisor; 0 without one. Removes the variable from
// the environment.
uint64_t restarts_so_far();

// Becomes the supervisor of a daemon with this process's own arguments, and does not return.
// Returns if this process has a supervisor, or if the configuration of `run` disables it or is
// unreadable. `ready_fd`: where the daemon reports its start; -1: nowhere. Call before any other
// thread exists. kBusy: another supervisor runs.
Result<> supervise_if_wanted(const DaemonRun& run, int ready_fd);

}  // namespace leat
