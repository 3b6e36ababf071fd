// SPDX-License-Identifier: Apache-2.0
// A TOML file as a flat list of values. The only code of the program that uses the TOML library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace leat {

struct TomlValue {
  enum class Kind : uint8_t { kString, kInteger, kBool, kOther };
  std::string key;  // "cache.size": tables joined by '.'
  Kind kind = Kind::kOther;
  std::string text;  // for a string: its content; for others: as in the file
  unsigned line = 0;
};

// Returns the values in the order of the file. A syntax error is kInvalidArgument with `name`, line
// and column.
Result<std::vector<TomlValue>> parse_toml(std::string_view text, const std::string& name);

// `text` as a TOML string, quotes included.
std::string quote_toml(std::string_view text);

}  // namespace leat
