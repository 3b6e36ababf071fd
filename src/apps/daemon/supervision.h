// SPDX-License-Identifier: Apache-2.0
// Whether this process is to be the daemon, or the supervisor that starts it.
#pragma once

#include <cstdint>
#include <string>

#include "apps/daemon/daemon_options.h"

namespace leat {

// Whether a supervisor of that runtime directory lives.
bool is_supervised(const std::string& runtime);

// Whether this process was started by one, ours or systemd (from 254 on, with a descriptor store).
bool has_supervisor();

// Daemons that a supervisor of ours started before this one; 0 without one. Takes the variable out
// of the environment.
uint64_t restarts_so_far();

// Becomes the supervisor of a daemon with this process's own arguments, and does not return, unless
// it has one, or `run`'s configuration wants none or cannot be read. `ready_fd`: where the daemon
// says whether it came up; -1: nowhere. Before any other thread. kBusy: there is another one.
Result<> supervise_if_wanted(const DaemonRun& run, int ready_fd);

}  // namespace leat
