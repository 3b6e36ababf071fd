// SPDX-License-Identifier: Apache-2.0
// Completion: candidates for the last word of a command line that is being typed. The same for all
// shells; their scripts only pass it on.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace leat {

struct Candidate {
  std::string word{};
  std::string help{};
};

struct Completion {
  enum class Files { kNone, kAll, kDirectories };

  std::vector<Candidate> candidates{};
  Files files = Files::kNone;  // whether the shell also completes file names
  bool continues = false;      // no space after the word: "quota="
};

// Returns names that only a running daemon knows, by the kind of value (command_description.h):
// MOUNT, JOB, SNAPSHOT. Empty without a daemon.
using DynamicCandidates = std::function<std::vector<Candidate>(std::string_view kind)>;

// `words`: those after "leat"; the last one is being typed and may be empty.
Completion complete(const std::vector<std::string>& words, const DynamicCandidates& dynamic);

// Splits like a shell; a quoted string is one word. The last word may be empty or its quote open.
// Runs and expands nothing.
std::vector<std::string> split_line(std::string_view line);

// Returns the completion script for `shell` ("bash", "zsh", "fish"); nothing for another one.
std::optional<std::string> completion_script(std::string_view shell);

}  // namespace leat
