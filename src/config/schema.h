// SPDX-License-Identifier: Apache-2.0
// Schema: the options that exist, declared as data by the program that composes the modules. This
// module knows none of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace leat {

enum class OptionType : uint8_t { kBytes, kDuration, kString, kBool, kInteger };

std::string_view to_string(OptionType type);

// The alternative matches the option's type: bytes, duration, string, bool, integer.
struct ByteCount {
  uint64_t bytes = 0;
  friend bool operator==(const ByteCount&, const ByteCount&) = default;
};
using OptionValue = std::variant<ByteCount, std::chrono::nanoseconds, std::string, bool, int64_t>;

struct Option {
  std::string name;  // "cache.size": sections and words of [a-z0-9_], joined by '.'
  OptionType type = OptionType::kString;
  std::string default_text;  // as on the command line
  std::string help;          // one line
  std::string unit{};        // for integers: the counted thing
  bool reloadable = false;   // a change takes effect without a restart
  // Bounds of sizes, durations and integers, as on the command line; empty: no bound.
  std::string min{}, max{};
  bool or_zero = false;  // 0 is valid although it is below `min`: it has a special meaning
  std::vector<std::string> choices{};  // for strings: the only valid values; empty: any
  std::string form{};  // for strings without choices: a description of the expected form
  // For a default that depends on the host: a description that is valid for all hosts.
  std::string default_help{};
};

// Returns "bytes", "seconds" or the counted thing; empty for strings and booleans.
std::string unit_of(const Option& option);
// Returns "1 to 4096", "at most 16MiB", "debug, info, warning or error", "true or false", or a
// string's form. Adds ", or 0" if 0 has a special meaning. Empty if there is no bound.
std::string range_of(const Option& option);

// Parses `text` as written by people. kInvalidArgument names the option, the text and what is
// accepted.
Result<OptionValue> parse_option(const Option& option, std::string_view text);
// Returns a text that parses to `value` without loss: "10GiB", "90s", "true".
std::string format_value(const OptionValue& value);

class Schema {
 public:
  // Checks names, environment names and defaults; a fault there is a defect of the program and
  // aborts.
  explicit Schema(std::vector<Option> options);

  std::span<const Option> options() const { return options_; }
  const std::vector<std::string>& names() const { return names_; }
  // Returns null if there is none.
  const Option* find(std::string_view name) const;

 private:
  std::vector<Option> options_;
  std::vector<std::string> names_;
};

// "LEAT_CACHE_SIZE" for "cache.size".
std::string environment_name(std::string_view option);

}  // namespace leat
