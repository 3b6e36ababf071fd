// SPDX-License-Identifier: Apache-2.0
// What is wrong with a command line, in words that say what would be right.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "apps/reference/command_description.h"

namespace leat {

// Of a word that is no command: what other programs call by it, or the nearest command.
std::string explain_command(std::string_view word);

// Of a command that does not take `words`; `complaint` is CLI11's.
std::string explain_usage(const CommandDescription& command, std::span<const char* const> words,
                          const std::string& complaint);

}  // namespace leat
