// SPDX-License-Identifier: Apache-2.0
// What was wrong with a command line, in words that lead on.
#pragma once

#include <span>
#include <string>

#include "apps/reference/command_description.h"

namespace leat {

// Of `words` behind the command's name, which the parser refused with `complaint`: names the flag
// or part that there is not, with the nearest that there is, else passes the complaint on.
std::string explain_usage(const CommandDescription& command, std::span<const char* const> words,
                          const std::string& complaint);

}  // namespace leat
