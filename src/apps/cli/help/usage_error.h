// SPDX-License-Identifier: Apache-2.0
// Explains errors of a command line, with a suggestion.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "apps/cli/help/command_description.h"

namespace leat {

// Explains a word that is no command: suggests the equivalent of another program's command, or the
// nearest command.
std::string explain_command(std::string_view word);

// Explains why a command rejects `words`; `complaint` is CLI11's message.
std::string explain_usage(const CommandDescription& command, std::span<const char* const> words,
                          const std::string& complaint);

}  // namespace leat
