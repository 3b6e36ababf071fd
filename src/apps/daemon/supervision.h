// SPDX-License-Identifier: Apache-2.0
// Whether this process is to be the daemon, or the supervisor that starts it.
#pragma once

#include <cstdint>
#include <string>

#include "apps/daemon/daemon_options.h"

namespace leat {

// Daemons that a supervisor started before this one; 0 without a supervisor.
uint64_t restarts_so_far();

// Becomes the supervisor of a daemon with this process's own arguments, and does not return, unless
// somebody supervises this process already, or `run`'s configuration wants nobody to or cannot be
// read. `ready_fd`: where the daemon says whether it came up; -1: nowhere. Before any other thread.
void supervise_if_wanted(const DaemonRun& run, int ready_fd);

}  // namespace leat
