// SPDX-License-Identifier: Apache-2.0
// Findings of `leat doctor`: those of the daemon, and what this process sees of the host.
#pragma once

#include <cstddef>
#include <string>

#include "doors/admin/codec.h"
#include "doors/admin/finding.h"

namespace leat {

void append(Findings& findings, Findings more);
size_t count(const Findings& findings, Level level);
// A page for people, and how much of it there is to do.
std::string to_text(const Findings& findings);
// "2 problems: fuse.device, cache.directory"; of none: empty.
std::string problems_in_words(const Findings& findings);

}  // namespace leat
