// SPDX-License-Identifier: Apache-2.0
// TextTable: rows of words in aligned columns, for people.
#pragma once

#include <string>
#include <vector>

namespace leat {

class TextTable {
 public:
  // One letter a column: 'l' or 'r', where its words are aligned.
  explicit TextTable(std::string alignment) : alignment_(std::move(alignment)) {}

  // As many words as columns.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // Lines without a newline at the end of the last; no spaces at line ends. Control characters of a
  // name are shown as '?', so that a name cannot command the terminal.
  std::string to_string() const;

 private:
  const std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

// `text` with control characters shown as '?'.
std::string printable(std::string text);

}  // namespace leat
