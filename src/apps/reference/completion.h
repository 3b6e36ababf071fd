// SPDX-License-Identifier: Apache-2.0
// Completion: what may stand at the end of a command line that is being typed. One answer for all
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
  Files files = Files::kNone;  // the shell's own completion of names, besides
  bool goes_on = false;        // no space behind the word: "quota="
};

// Names that only a running daemon knows, by the kind of value (command_description.h): MOUNT, JOB,
// SNAPSHOT. Empty where there is none.
using LiveNames = std::function<std::vector<Candidate>(std::string_view kind)>;

// `words`: behind "leat"; the last one is the word being typed, which may be empty.
Completion complete(const std::vector<std::string>& words, const LiveNames& live);

// As a shell would split them, what stands in quotes as one; the last word may be empty or its
// quote open. Nothing is run or expanded.
std::vector<std::string> split_line(std::string_view line);

// The script that makes `shell` ("bash", "zsh", "fish") ask; nothing for another one.
std::optional<std::string> completion_script(std::string_view shell);

}  // namespace leat
