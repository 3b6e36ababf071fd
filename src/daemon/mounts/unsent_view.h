// SPDX-License-Identifier: Apache-2.0
// UnsentView: changes that a mount holds and its store does not have, for the control socket.
#pragma once

#include "frontends/admin/daemon_api.h"
#include "vfs/file_system.h"

namespace leat {

UnsentView to_view(const UnsentChanges& unsent);

}  // namespace leat
