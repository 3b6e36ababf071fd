// SPDX-License-Identifier: Apache-2.0
#include "apps/reference/usage_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "config/nearest.h"

namespace leat {
namespace {

std::vector<std::string> names_of(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const CommandDescription& part : command.parts) {
    names.push_back(part_word(part));
    std::ranges::copy(part.aliases, std::back_inserter(names));
  }
  return names;
}

std::vector<std::string> flags_of(const CommandDescription& command) {
  std::vector<std::string> flags = {"--help"};
  for (const ArgumentDescription& argument : command.arguments) {
    std::ranges::copy(argument.flags, std::back_inserter(flags));
  }
  return flags;
}

std::optional<std::string> unknown_flag(const CommandDescription& command,
                                        std::span<const char* const> words) {
  for (std::string_view word : words) {
    if (word == "--") break;
    if (!word.starts_with("--") || word == "--help") continue;
    word = word.substr(0, word.find('='));
    if (command.flag(word) != nullptr) continue;
    return fmt::format("there is no flag '{}'{}", word, did_you_mean(word, flags_of(command)));
  }
  return std::nullopt;
}

}  // namespace

std::string explain_usage(const CommandDescription& command, std::span<const char* const> words,
                          const std::string& complaint) {
  auto is_name = [](std::string_view word) { return !word.starts_with("-"); };
  const auto first = std::ranges::find_if(words, is_name);
  const CommandDescription* meant = &command;
  if (first != words.end() && !command.parts.empty()) {
    if (const CommandDescription* part = command.part(*first)) {
      meant = part;
    } else if (std::ranges::none_of(command.arguments, &ArgumentDescription::positional)) {
      return fmt::format("there is no 'leat {} {}'{}; 'leat {} --help' lists what there is",
                         command.name, *first, did_you_mean(*first, names_of(command)),
                         command.name);
    }
  }
  return fmt::format("{}: {}; 'leat {} --help' shows what it takes", meant->name,
                     unknown_flag(*meant, words).value_or(complaint), meant->name);
}

}  // namespace leat
