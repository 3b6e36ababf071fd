// SPDX-License-Identifier: Apache-2.0
// Waits until the store has what was written below a path (write=back).
#pragma once

#include <string>

#include "apps/cli/client/daemon_client.h"
#include "apps/cli/command/command.h"
#include "frontends/admin/daemon_api.h"

namespace leat {

// Shows what is left meanwhile. Returns what the mounts there had to send when it began.
CommandResult<UnsentView> wait_for_flush(DaemonClient& client, const std::string& path);

}  // namespace leat
