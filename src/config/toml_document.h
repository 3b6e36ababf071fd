// SPDX-License-Identifier: Apache-2.0
// A TOML file as a flat list of values. The only file of the program that knows the TOML library.
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
  std::string text;  // of a string: its content; of others: as in the file's syntax
  unsigned line = 0;
};

// In the order of the file. kInvalidArgument with `name`, line and column where it is not TOML.
Result<std::vector<TomlValue>> parse_toml(std::string_view text, const std::string& name);

// `text` as a TOML string, quotes included.
std::string quote_toml(std::string_view text);

}  // namespace leat
