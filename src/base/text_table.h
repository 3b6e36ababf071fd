// SPDX-License-Identifier: Apache-2.0
// TextTable: rows of words in aligned columns, for people.
#pragma once

#include <string>
#include <vector>

namespace leat {

class TextTable {
 public:
  // One letter a column, 'l' or 'r': its alignment.
  explicit TextTable(std::string alignment) : alignment_(std::move(alignment)) {}

  // `row` has one word per column.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // Returns lines without a final newline and without trailing spaces. Shows control characters as
  // '?', so that a name cannot control the terminal.
  std::string to_string() const;

 private:
  const std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

// Returns `text` with control characters as '?'.
std::string printable(std::string text);

}  // namespace leat
