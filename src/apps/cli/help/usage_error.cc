// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/help/usage_error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <regex>

#include "config/nearest.h"

namespace leat {
namespace {

// Commands of other caches, file systems and shells, with the equivalent here.
struct ForeignCommand {
  std::string_view word;
  std::string_view here;
};
constexpr std::array kForeignCommands = {
    ForeignCommand{"rm",
                   "'leat free PATH' drops a path from the cache, 'leat umount DIR' a mount; "
                   "Leat removes nothing from a store"},
    ForeignCommand{"sync", "'leat cp -r --update SRC DST' copies what is new or changed"},
    ForeignCommand{"copy", "'leat cp SRC DST' copies"},
    ForeignCommand{"mv",
                   "Leat moves nothing in a store; 'leat cp SRC DST' copies, and 'leat mounts "
                   "move' shows a mount at another directory"},
    ForeignCommand{"warmup", "'leat load PATH' fetches a tree into the cache"},
    ForeignCommand{"warm", "'leat load PATH' fetches a tree into the cache"},
    ForeignCommand{"prefetch", "'leat load PATH' fetches a tree into the cache"},
    ForeignCommand{"preload", "'leat load PATH' fetches a tree into the cache"},
    ForeignCommand{"evict",
                   "'leat free PATH' drops a path from the cache, 'leat cache evict' as "
                   "much as is needed"},
    ForeignCommand{"info",
                   "'leat stat PATH' shows one name, 'leat status' the daemon and its cache"},
    ForeignCommand{"df",
                   "'leat status' shows how full the cache is, 'leat du PATH' the size of a "
                   "tree"},
    ForeignCommand{"unmount", "'leat umount DIR' takes a mount away"},
    ForeignCommand{"remount", "'leat mounts set DIR NAME=VALUE' changes a mount while it is used"},
    ForeignCommand{"fsck", "'leat cache verify' compares what is cached with its checksums"},
    ForeignCommand{"gc", "the cache makes room by itself; 'leat cache evict' makes more"},
    ForeignCommand{"ps", "'leat jobs' lists jobs, 'leat top' what is being read"},
    ForeignCommand{"stop",
                   "the daemon ends when its last mount is unmounted with 'leat umount DIR'"},
    ForeignCommand{"start", "'leat mount SOURCE DIR' starts the daemon"},
};

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

bool is_short_flag(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '-' &&
         std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

std::optional<std::string> unknown_flag(const CommandDescription& command,
                                        std::span<const char* const> words) {
  for (std::string_view word : words) {
    if (word == "--") break;
    const bool is_long = word.starts_with("--");
    if (!is_long && !is_short_flag(word)) continue;
    if (word == "--help" || word == "-h") continue;
    word = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
    if (command.flag(word) != nullptr) continue;
    return fmt::format("there is no flag '{}'{}", word,
                       is_long ? did_you_mean(word, flags_of(command)) : std::string());
  }
  return std::nullopt;
}

// Returns the arguments that a command does not accept, in the given order.
std::string unexpected(const CommandDescription& command, const std::string& list,
                       std::span<const char* const> words) {
  std::vector<std::string> extras;
  for (std::string_view word : words) {
    const bool named = fmt::format(" {} ", list).contains(fmt::format(" {} ", word));
    if (named) extras.push_back(fmt::format("'{}'", word));
  }
  if (extras.empty()) extras.push_back(fmt::format("'{}'", list));
  return fmt::format("{} {} too much; it is '{}'", fmt::join(extras, ", "),
                     extras.size() == 1 ? "is" : "are", usage_line(command));
}

// Rewrites CLI11's message in our form; returns it unchanged if it is unknown.
std::string reword(const CommandDescription& command, const std::string& complaint,
                   std::span<const char* const> words) {
  static const std::regex required("(.+) is required");
  static const std::regex extras("The following arguments? (?:was|were) not expected: (.*)");
  static const std::regex converted("Could not convert: (.+) = (.*)");
  static const std::regex missing("(.+): (\\d+) required (.+) missing");
  static const std::regex repeated("(.+): At Most (\\d+) required but received (\\d+)");
  static const std::regex outside("(.+): Value (.*) not in range (.+) to (.+)");
  std::smatch found;
  if (complaint == "A subcommand is required") {
    return fmt::format("a command is missing: {}", fmt::join(names_of(command), ", "));
  }
  if (std::regex_match(complaint, found, required)) {
    return fmt::format("{} is missing; it is '{}'", found[1].str(), usage_line(command));
  }
  if (std::regex_match(complaint, found, extras)) return unexpected(command, found[1], words);
  if (std::regex_match(complaint, found, converted)) {
    return fmt::format("{} takes a number, not '{}'", found[1].str(), found[2].str());
  }
  if (std::regex_match(complaint, found, missing)) {
    return fmt::format("{} takes {}, and nothing follows it", found[1].str(), found[3].str());
  }
  if (std::regex_match(complaint, found, repeated)) {
    return fmt::format("{} may be given once", found[1].str());
  }
  if (std::regex_match(complaint, found, outside)) {
    return fmt::format("{} takes a number from {} to {}, not '{}'", found[1].str(), found[3].str(),
                       found[4].str(), found[2].str());
  }
  return complaint;
}

}  // namespace

std::string explain_command(std::string_view word) {
  const auto foreign = std::ranges::find(kForeignCommands, word, &ForeignCommand::word);
  if (foreign != kForeignCommands.end()) {
    return fmt::format("there is no command '{}': {}", word, foreign->here);
  }
  if (word.starts_with('-')) {
    return fmt::format("'{}' stands before the command; flags stand behind it: 'leat ls {}'", word,
                       word);
  }
  return fmt::format("there is no command '{}'{}; 'leat --help' lists them", word,
                     did_you_mean(word, command_names()));
}

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
  const std::optional<std::string> flag = unknown_flag(*meant, words);
  return fmt::format("{}: {}; 'leat {} --help' shows what it takes", meant->name,
                     flag ? *flag : reword(*meant, complaint, words), meant->name);
}

}  // namespace leat
