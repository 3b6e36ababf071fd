// SPDX-License-Identifier: Apache-2.0
// CommandDescription: the arguments of a command as data, read from its declarations. Help,
// completion and the reference pages all use it, so they agree.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/command/command_table.h"

namespace leat {

// Kinds of values that completion knows by name; others ("SIZE", "DURATION" …) are for people only.
// Words separated by '|' are the only valid ones.
namespace value_name {
inline constexpr const char* kPath = "PATH";                   // in the namespace, or a store's URL
inline constexpr const char* kFolder = "DIR";                  // local directory
inline constexpr const char* kFile = "FILE";                   // local file
inline constexpr const char* kMount = "MOUNT";                 // path of a mount
inline constexpr const char* kJob = "JOB";                     // number of a job
inline constexpr const char* kClusterMount = "CLUSTER_MOUNT";  // path of a mount in the cluster's
                                                               // namespace
inline constexpr const char* kClusterJob = "CLUSTER_JOB";      // number of a cluster's job
inline constexpr const char* kSnapshot = "SNAPSHOT";           // name of a snapshot
inline constexpr const char* kOption = "OPTION=VALUE";         // option of the daemon
inline constexpr const char* kMountOption = "NAME=VALUE";      // option of a mount or its store
}  // namespace value_name

struct ArgumentDescription {
  std::string name{};                // for positionals; empty for flags
  std::vector<std::string> flags{};  // "-o", "--option"; empty for positionals
  std::string value{};               // kind of the value; empty: none
  std::vector<std::string> choices{};
  std::string help{};
  bool required = false;
  bool repeated = false;

  bool positional() const { return flags.empty(); }
};

struct CommandDescription {
  std::string name{};                  // "snapshot build"
  std::vector<std::string> aliases{};  // for a part: further words for it
  std::string summary{};
  std::vector<ArgumentDescription> arguments{};  // positionals in their order, then flags
  std::vector<CommandDescription> parts{};       // "build", "ls" … of "snapshot"
  bool part_needed = false;

  // Finds a part by its name or an alias; null if there is none.
  const CommandDescription* part(std::string_view name) const;
  // Finds a flag by "-o" or "--option"; null if there is none.
  const ArgumentDescription* flag(std::string_view word) const;
};

CommandDescription describe(const CommandEntry& entry);

// Returns the last word of a part's name: "build".
std::string part_word(const CommandDescription& part);
// "leat snapshot build [--name NAME] [--use] PATH"
std::string usage_line(const CommandDescription& command);
// Returns the text of --help, in lines of at most `columns`.
std::string help_text(const CommandDescription& command, std::string_view example, size_t columns);

// Restricts an option's values to `words`. Rejects others, and suggests the nearest one. Help and
// completion show `words`.
CLI::Option* one_of(CLI::Option* option, std::vector<std::string> words);

}  // namespace leat
