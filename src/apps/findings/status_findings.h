// SPDX-License-Identifier: Apache-2.0
// What a daemon says of itself that somebody may have to act on, in words: for the console and, by
// way of /v1/findings, for `leat doctor`, so that both say the same.
#pragma once

#include <vector>

#include "doors/admin/finding.h"
#include "doors/admin/host.h"

namespace leat {

// Paths that failed are put together by mount and cause, with the age of the last one: `now` is by
// the clock of ErrorView::time. What failed more than 15 minutes ago is a note, and so is a refused
// write, whenever it was.
Findings status_findings(const HostStatus& status, const std::vector<ErrorView>& errors,
                         WallTime now);

}  // namespace leat
