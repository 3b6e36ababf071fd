// SPDX-License-Identifier: Apache-2.0
// What stands in a new daemon's way when the last one was killed and cannot end.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace leat {

// Frees what the daemon of `runtime` holds if it was killed and hangs in the kernel: its FUSE
// connections are aborted, so that it ends and with it its locks, and its folders are taken away.
// Does nothing if it lives, however slow it is, or has ended. What happened goes to `say`, a
// sentence each. Blocks, for seconds at most. Where it may not: kPermissionDenied with what to run.
// `kept`: also where somebody lives who would start the next one.
Result<> clear_dead_daemon(const std::string& runtime, const std::function<void(std::string)>& say,
                           bool kept = false);

}  // namespace leat
