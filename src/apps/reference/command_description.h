// SPDX-License-Identifier: Apache-2.0
// CommandDescription: what a command takes, as data, read off its declarations. Help, completion
// and the reference pages are all made of it, so none of them can say something else.
#pragma once

#include <string>
#include <vector>

#include "apps/command_table.h"

namespace leat {

// The kinds of value that completion knows by their name; others ("SIZE", "DURATION" …) are for
// people only. Several with '|' between them are a choice of these very words.
namespace value_name {
inline constexpr const char* kPath = "PATH";                   // in the namespace, or a store's URL
inline constexpr const char* kFolder = "DIR";                  // local directory
inline constexpr const char* kFile = "FILE";                   // local file
inline constexpr const char* kMount = "MOUNT";                 // folder of a mount
inline constexpr const char* kJob = "JOB";                     // number of a job
inline constexpr const char* kClusterMount = "CLUSTER_MOUNT";  // path of one in its namespace
inline constexpr const char* kClusterJob = "CLUSTER_JOB";      // number of one
inline constexpr const char* kSnapshot = "SNAPSHOT";           // name of one
inline constexpr const char* kOption = "OPTION=VALUE";         // of the daemon
inline constexpr const char* kMountOption = "NAME=VALUE";      // of a mount or its store
}  // namespace value_name

struct ArgumentDescription {
  std::string name{};                // of a positional; empty for flags
  std::vector<std::string> flags{};  // "-o", "--option"; empty for positionals
  std::string value{};               // what follows; empty: nothing
  std::vector<std::string> choices{};
  std::string help{};
  bool required = false;
  bool repeated = false;

  bool positional() const { return flags.empty(); }
};

struct CommandDescription {
  std::string name{};                  // "snapshot build"
  std::vector<std::string> aliases{};  // of a part: words that mean it as well
  std::string summary{};
  std::vector<ArgumentDescription> arguments{};  // positionals in their order, then flags
  std::vector<CommandDescription> parts{};       // "build", "ls" … of "snapshot"
  bool part_needed = false;

  // By its name or an alias; null when there is none.
  const CommandDescription* part(std::string_view name) const;
  // By "-o" or "--option"; null when there is none.
  const ArgumentDescription* flag(std::string_view word) const;
};

CommandDescription describe(const CommandEntry& entry);

// The last word of a part's name: "build".
std::string part_word(const CommandDescription& part);
// "leat snapshot build [--name NAME] [--use] PATH"
std::string usage_line(const CommandDescription& command);
// What --help prints, in lines of at most `columns`.
std::string help_text(const CommandDescription& command, std::string_view example, size_t columns);

// Restricts an option's words to `words`; others are refused with the nearest one. Shown and
// completed as they are.
CLI::Option* one_of(CLI::Option* option, std::vector<std::string> words);

}  // namespace leat
