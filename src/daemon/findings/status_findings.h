// SPDX-License-Identifier: Apache-2.0
// Conditions of a daemon that may need action, as text. The console and `leat doctor` both get them
// from /v1/findings, so that they agree.
#pragma once

#include <vector>

#include "frontends/admin/daemon_api.h"
#include "frontends/admin/finding.h"

namespace leat {

// Groups failed paths by mount and cause, with the age of the last one: `now` uses the clock of
// ErrorView::time. A failure more than 15 minutes ago is a note, and so is a rejected write of any
// age.
Findings status_findings(const DaemonStatus& status, const std::vector<ErrorView>& errors,
                         WallTime now);

}  // namespace leat
