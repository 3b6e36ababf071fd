// SPDX-License-Identifier: Apache-2.0
// Removes the remains of a daemon that was killed and cannot end.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace leat {

// Frees the resources of the daemon of `runtime` if it was killed and hangs in the kernel. Aborts
// its FUSE connections, so that it ends and releases its locks, and removes its mounts. No effect
// on a daemon that lives, however slow, or has ended. Passes each action to `report`, one sentence
// each. Blocks for seconds at most. kPermissionDenied, with the command to run, if it lacks the
// rights. `supervised`: acts even if a supervisor lives that would start the next daemon.
Result<> abort_hung_daemon(const std::string& runtime,
                           const std::function<void(std::string)>& report, bool supervised = false);

}  // namespace leat
