// SPDX-License-Identifier: Apache-2.0
// The daemon: the composition root. Makes the rooms, wires them, and takes them apart in the order
// in which nothing is used after it is gone.
#pragma once

#include "apps/daemon/daemon_options.h"

namespace leat {

enum class DaemonEnd {
  kEnded,
  // Its mounts are there, and wait for the next daemon. Threads are left: the caller ends the
  // process without anything else, by _exit().
  kHandedOver,
};

// Runs a daemon in this process until a signal, /v1/shutdown, /v1/upgrade or its last umount ends
// it. Call it from main's thread before any other thread is there. Fails only when it cannot start.
Result<DaemonEnd> run_daemon(DaemonRun run);

}  // namespace leat
