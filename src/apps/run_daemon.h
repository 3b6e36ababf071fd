// SPDX-License-Identifier: Apache-2.0
// The daemon: the composition root. Creates the modules, connects them, and destroys them in an
// order in which none is used after its end.
#pragma once

#include "daemon/daemon_options.h"

namespace leat {

enum class DaemonEnd {
  kEnded,
  // Its mounts stay, and wait for the next daemon. Threads may still run: the caller must end the
  // process at once with _exit().
  kTakeover,
};

// Runs a daemon in this process until a signal, /v1/shutdown, /v1/upgrade or the last umount ends
// it. Call it from the main thread before any other thread exists. Fails only if it cannot start.
Result<DaemonEnd> run_daemon(DaemonRun run);

}  // namespace leat
