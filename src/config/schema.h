// SPDX-License-Identifier: Apache-2.0
// Schema: the options that exist, declared as data by whoever composes the program. This room knows
// none of them by itself.
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

// By type: bytes, duration, string, bool, integer. Never another alternative than the option's type
// says.
struct ByteCount {
  uint64_t bytes = 0;
  friend bool operator==(const ByteCount&, const ByteCount&) = default;
};
using OptionValue = std::variant<ByteCount, std::chrono::nanoseconds, std::string, bool, int64_t>;

struct Option {
  std::string name;  // "cache.size": sections and words of [a-z0-9_], joined by '.'
  OptionType type = OptionType::kString;
  std::string default_text;  // as it would be written on the command line
  std::string help;          // one line
  std::string unit{};        // of whole numbers: what is counted
  bool hot = false;          // a change takes effect without a restart
  // As they would be written, of sizes, durations and whole numbers; empty: no bound.
  std::string min{}, max{};
  bool or_zero = false;  // 0 is taken though it is less than the least: it means something else
  std::vector<std::string> choices{};  // of text: nothing else; empty: any
  std::string form{};  // of text without choices: what it has to look like, in words
  // Of a default that is another one on other hosts: what it is, for pages that hold for all.
  std::string default_help{};
};

// "bytes", "seconds", what is counted; empty of text, and of true and false.
std::string unit_of(const Option& option);
// "1 to 4096", "at most 16MiB", "debug, info, warning or error", "true or false", a text's form;
// with ", or 0" where that means something else. Empty where there is no bound.
std::string range_of(const Option& option);

// Reads `text` as people write it. kInvalidArgument names the option, what was read and what would
// do.
Result<OptionValue> parse_option(const Option& option, std::string_view text);
// What `text` parses to and nothing is lost: "10GiB", "90s", "true".
std::string format_value(const OptionValue& value);

class Schema {
 public:
  // Names, their environment names and the defaults are checked; what is wrong there is a defect of
  // the program and aborts.
  explicit Schema(std::vector<Option> options);

  std::span<const Option> options() const { return options_; }
  const std::vector<std::string>& names() const { return names_; }
  // Null when there is none.
  const Option* find(std::string_view name) const;

 private:
  std::vector<Option> options_;
  std::vector<std::string> names_;
};

// "LEAT_CACHE_SIZE" for "cache.size".
std::string environment_name(std::string_view option);

}  // namespace leat
