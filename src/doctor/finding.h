// SPDX-License-Identifier: Apache-2.0
// Findings of `leat doctor`: those of the daemon, and those of this process about the host.
#pragma once

#include <cstddef>
#include <string>

#include "frontends/admin/codec.h"
#include "frontends/admin/finding.h"

namespace leat {

void append(Findings& findings, Findings more);
size_t count(const Findings& findings, Level level);
// Returns a page for people with a summary.
std::string to_text(const Findings& findings);
// Returns "2 problems: fuse.device, cache.directory"; empty without problems.
std::string problems_in_words(const Findings& findings);

}  // namespace leat
