// SPDX-License-Identifier: Apache-2.0
// Queries the running daemon for `leat doctor`.
#pragma once

#include <string>

#include "doctor/daemon_findings.h"

namespace leat {

// Clears a dead daemon of `runtime`, as every command does, then queries the live one. Blocks for
// seconds at most.
DaemonFacts inspect_daemon(const std::string& runtime);

}  // namespace leat
