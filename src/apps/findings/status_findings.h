// SPDX-License-Identifier: Apache-2.0
// Conditions of a daemon that may need action, in words. The console and `leat doctor` both get
// them by /v1/findings, so that they say the same.
#pragma once

#include <vector>

#include "doors/admin/finding.h"
#include "doors/admin/host.h"

namespace leat {

// Paths that failed are put together by mount and cause, with the age of the last one: `now` is by
// the clock of ErrorView::time. A failure more than 15 minutes ago is a note, and so is a refused
// write of any age.
Findings status_findings(const HostStatus& status, const std::vector<ErrorView>& errors,
                         WallTime now);

}  // namespace leat
