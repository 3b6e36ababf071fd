// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/help/command_description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <ranges>

#include "config/nearest.h"

namespace leat {
namespace {

// Flags up to this width have their text on the same line.
constexpr size_t kFlagColumn = 26;
// The usage line shows more flags than these as "[FLAGS]".
constexpr size_t kFlagsInUsage = 4;

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> words;
  for (auto part : std::views::split(text, at)) words.emplace_back(part.begin(), part.end());
  return words;
}

ArgumentDescription describe(const CLI::Option& option) {
  ArgumentDescription argument;
  for (const std::string& name : option.get_snames()) argument.flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) argument.flags.push_back("--" + name);
  if (argument.flags.empty()) argument.name = option.get_name(true);
  argument.help = option.get_description();
  argument.required = option.get_required();
  argument.repeated = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  // A flag has no value; a positional is named after its value.
  if (option.get_items_expected_max() == 0) return argument;
  argument.value = option.get_type_name();
  if (argument.value.contains('|')) argument.choices = split(argument.value, '|');
  return argument;
}

CommandDescription describe(const CLI::App& app, std::string name,
                            std::vector<ArgumentDescription> inherited = {}) {
  CommandDescription command{
      .name = std::move(name), .aliases = app.get_aliases(), .summary = app.get_description()};
  command.part_needed = app.get_require_subcommand_min() > 0;
  // CLI11 lists flags where they may stand. --help is described once for all commands.
  for (bool positionals : {true, false}) {
    for (const CLI::Option* option : app.get_options()) {
      if (option == app.get_help_ptr() || option->get_group().empty()) continue;
      if (option->get_positional() == positionals) command.arguments.push_back(describe(*option));
    }
  }
  std::ranges::copy(inherited, std::back_inserter(command.arguments));
  // Flags before a part are also valid after it.
  std::erase_if(inherited = command.arguments, &ArgumentDescription::positional);
  auto visible = [](const CLI::App* part) { return !part->get_group().empty(); };
  for (const CLI::App* part : app.get_subcommands(visible)) {
    command.parts.push_back(describe(*part, command.name + " " + part->get_name(), inherited));
  }
  return command;
}

std::string flags_of(const ArgumentDescription& argument) {
  std::string text = fmt::format("{}", fmt::join(argument.flags, ", "));
  if (!argument.value.empty()) text += " " + argument.value;
  return text;
}

std::string in_usage(const ArgumentDescription& argument, const std::string& words) {
  const char* more = argument.repeated ? "…" : "";
  return argument.required ? fmt::format(" {}{}", words, more)
                           : fmt::format(" [{}]{}", words, more);
}

// Breaks `text` between words; indents every line by `indent`.
std::string wrapped(std::string_view text, size_t indent, size_t columns) {
  const size_t room = std::max<size_t>(columns > indent ? columns - indent : 0, 20);
  std::string out;
  size_t used = 0;
  for (const std::string& word : split(text, ' ')) {
    const size_t length = static_cast<size_t>(std::ranges::count_if(
        word, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
    if (used > 0 && used + 1 + length > room) {
      out += "\n" + std::string(indent, ' ');
      used = 0;
    }
    if (used > 0) out += ' ';
    out += word;
    used += (used > 0 ? 1 : 0) + length;
  }
  return out;
}

std::string row(std::string_view left, std::string_view right, size_t columns) {
  const bool beside = left.size() + 4 <= kFlagColumn;
  std::string text = fmt::format("  {}", left);
  text +=
      beside ? std::string(kFlagColumn - text.size(), ' ') : "\n" + std::string(kFlagColumn, ' ');
  return text + wrapped(right, kFlagColumn, columns) + "\n";
}

}  // namespace

const CommandDescription* CommandDescription::part(std::string_view wanted) const {
  auto found = std::ranges::find_if(parts, [wanted](const CommandDescription& part) {
    return part_word(part) == wanted ||
           std::ranges::find(part.aliases, wanted) != part.aliases.end();
  });
  return found == parts.end() ? nullptr : &*found;
}

const ArgumentDescription* CommandDescription::flag(std::string_view word) const {
  for (const ArgumentDescription& argument : arguments) {
    if (std::ranges::find(argument.flags, word) != argument.flags.end()) return &argument;
  }
  return nullptr;
}

CommandDescription describe(const CommandEntry& entry) {
  std::unique_ptr<Command> command = entry.make();
  CLI::App app(entry.summary);
  declare_all(*command, app);
  return describe(app, entry.name);
}

std::string part_word(const CommandDescription& part) {
  return part.name.substr(part.name.rfind(' ') + 1);
}

std::string usage_line(const CommandDescription& command) {
  std::string text = "leat " + command.name;
  if (!command.parts.empty()) text += command.part_needed ? " COMMAND" : " [COMMAND]";
  auto optional_flag = [](const ArgumentDescription& argument) {
    return !argument.positional() && !argument.required;
  };
  const bool all =
      std::ranges::count_if(command.arguments, optional_flag) <= static_cast<long>(kFlagsInUsage);
  if (!all) text += " [FLAGS]";
  for (const ArgumentDescription& argument : command.arguments) {
    if (argument.positional() || (!all && !argument.required)) continue;
    const std::string flag = argument.value.empty()
                                 ? argument.flags.back()
                                 : fmt::format("{} {}", argument.flags.back(), argument.value);
    text += in_usage(argument, flag);
  }
  for (const ArgumentDescription& argument : command.arguments) {
    if (!argument.positional()) continue;
    text += in_usage(argument, argument.name);
  }
  return text;
}

std::string help_text(const CommandDescription& command, std::string_view example, size_t columns) {
  std::string text = command.summary + ".\n\nUsage: ";
  text += wrapped(usage_line(command), 7, columns) + "\n";
  if (!command.aliases.empty()) {
    text += fmt::format("\n'{}' may be written '{}'.\n", part_word(command),
                        fmt::join(command.aliases, "', '"));
  }
  auto section = [&](const char* title, bool positional) {
    bool any = false;
    for (const ArgumentDescription& argument : command.arguments) {
      if (argument.positional() != positional) continue;
      if (!any) text += fmt::format("\n{}:\n", title);
      any = true;
      text += row(positional ? argument.name : flags_of(argument), argument.help, columns);
    }
  };
  section("Arguments", true);
  if (!command.parts.empty()) {
    text += "\nCommands:\n";
    for (const CommandDescription& part : command.parts) {
      std::vector<std::string> words = {part_word(part)};
      std::ranges::copy(part.aliases, std::back_inserter(words));
      text += row(fmt::format("{}", fmt::join(words, ", ")), part.summary, columns);
    }
  }
  section("Flags", false);
  if (!example.empty()) text += fmt::format("\nExample:\n  {}\n", example);
  text.pop_back();
  return text;
}

CLI::Option* one_of(CLI::Option* option, std::vector<std::string> words) {
  option->type_name(fmt::format("{}", fmt::join(words, "|")));
  auto check = [words = std::move(words)](const std::string& word) -> std::string {
    if (std::ranges::find(words, word) != words.end()) return {};
    return fmt::format("'{}' is none of {}{}", word, fmt::join(words, ", "),
                       did_you_mean(word, words));
  };
  return option->check(check);
}

}  // namespace leat
