// SPDX-License-Identifier: Apache-2.0
// Failed paths, grouped by mount and cause: a hundred rejected writes of one program are one
// finding.
#pragma once

#include <string>
#include <vector>

#include "frontends/admin/daemon_api.h"
#include "frontends/admin/finding.h"

namespace leat {

// Grouped by mount, newest cause first. `now` uses the clock of ErrorView::time.
Findings path_findings(const std::vector<ErrorView>& errors, WallTime now);

// "8 s ago", "50 min ago", "3 h ago", "2 d ago".
std::string age_text(WallTime then, WallTime now);

}  // namespace leat
