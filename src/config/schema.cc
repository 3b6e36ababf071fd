// SPDX-License-Identifier: Apache-2.0
#include "config/schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/check.h"
#include "base/units.h"
#include "config/nearest.h"

namespace leat {
namespace {

Error refused(const Option& option, std::string_view text, std::string_view wanted) {
  return error(StatusCode::kInvalidArgument,
               fmt::format("{} = '{}': {}", option.name, text, wanted));
}

Result<OptionValue> parse_bool(const Option& option, std::string_view text) {
  for (std::string_view yes : {"true", "yes", "on", "1"}) {
    if (text == yes) return OptionValue(true);
  }
  for (std::string_view no : {"false", "no", "off", "0"}) {
    if (text == no) return OptionValue(false);
  }
  return refused(option, text, "write true or false");
}

Result<OptionValue> parse_integer(const Option& option, std::string_view text) {
  int64_t value = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) {
    return refused(option, text, "a whole number is needed");
  }
  return OptionValue(value);
}

Result<OptionValue> parse_text(const Option& option, std::string_view text) {
  if (option.choices.empty() || std::ranges::find(option.choices, text) != option.choices.end()) {
    return OptionValue(std::string(text));
  }
  return refused(
      option, text,
      fmt::format("it must be {}{}", range_of(option), did_you_mean(text, option.choices)));
}

Result<OptionValue> parse_unbounded(const Option& option, std::string_view text) {
  switch (option.type) {
    case OptionType::kString:
      return parse_text(option, text);
    case OptionType::kBool:
      return parse_bool(option, text);
    case OptionType::kInteger:
      return parse_integer(option, text);
    case OptionType::kBytes: {
      Result<uint64_t> bytes = parse_bytes(text);
      if (!bytes) return refused(option, text, bytes.error().message());
      return OptionValue(ByteCount{*bytes});
    }
    case OptionType::kDuration: {
      Result<std::chrono::nanoseconds> duration = parse_duration(text);
      if (!duration) return refused(option, text, duration.error().message());
      // Round down to the precision of format_value().
      return OptionValue(*duration - *duration % std::chrono::microseconds(1));
    }
  }
  return refused(option, text, "the option has no type");
}

// Both values have the same type.
bool less(const OptionValue& a, const OptionValue& b) {
  if (auto* bytes = std::get_if<ByteCount>(&a)) return bytes->bytes < std::get<ByteCount>(b).bytes;
  if (auto* number = std::get_if<int64_t>(&a)) return *number < std::get<int64_t>(b);
  using std::chrono::nanoseconds;
  if (auto* time = std::get_if<nanoseconds>(&a)) return *time < std::get<nanoseconds>(b);
  return false;
}

bool is_zero(const OptionValue& value) {
  if (auto* bytes = std::get_if<ByteCount>(&value)) return bytes->bytes == 0;
  auto* time = std::get_if<std::chrono::nanoseconds>(&value);
  return time != nullptr && time->count() == 0;
}

// The schema has checked that the bounds themselves parse.
bool within_bounds(const Option& option, const OptionValue& value) {
  if (!option.max.empty() && less(parse_unbounded(option, option.max).value(), value)) return false;
  if (option.min.empty() || !less(value, parse_unbounded(option, option.min).value())) return true;
  return option.or_zero && is_zero(value);
}

std::string format_byte_count(uint64_t bytes) {
  struct Unit {
    const char* name;
    uint64_t bytes;
  };
  constexpr std::array kUnits = {Unit{"TiB", kTiB}, Unit{"GiB", kGiB}, Unit{"MiB", kMiB},
                                 Unit{"KiB", kKiB}};
  for (const Unit& unit : kUnits) {
    if (bytes != 0 && bytes % unit.bytes == 0) {
      return fmt::format("{}{}", bytes / unit.bytes, unit.name);
    }
  }
  return fmt::format("{}B", bytes);
}

bool is_option_name(std::string_view name) {
  bool word_begins = true;
  for (char c : name) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    if (c == '.' ? word_begins : !letter) return false;
    word_begins = c == '.';
  }
  return !word_begins;
}

}  // namespace

std::string_view to_string(OptionType type) {
  switch (type) {
    case OptionType::kBytes:
      return "size";
    case OptionType::kDuration:
      return "duration";
    case OptionType::kString:
      return "text";
    case OptionType::kBool:
      return "true or false";
    case OptionType::kInteger:
      return "whole number";
  }
  return "value";
}

std::string unit_of(const Option& option) {
  if (option.type == OptionType::kBytes) return "bytes";
  if (option.type == OptionType::kDuration) return "seconds";
  return option.unit;
}

std::string range_of(const Option& option) {
  if (!option.choices.empty()) {
    const std::span words(option.choices);
    return fmt::format("{} or {}", fmt::join(words.first(words.size() - 1), ", "), words.back());
  }
  if (option.type == OptionType::kBool) return "true or false";
  if (option.type == OptionType::kString) return option.form;
  if (option.min.empty() && option.max.empty()) return "";
  if (option.min.empty()) return "at most " + option.max;
  const char* zero = option.type == OptionType::kDuration ? ", or 0s" : ", or 0";
  const std::string range = option.max.empty() ? "at least " + option.min
                                               : fmt::format("{} to {}", option.min, option.max);
  return option.or_zero ? range + zero : range;
}

Result<OptionValue> parse_option(const Option& option, std::string_view text) {
  LEAT_TRY(OptionValue value, parse_unbounded(option, text));
  if (within_bounds(option, value)) return value;
  return refused(option, text, fmt::format("it must be {}", range_of(option)));
}

std::string format_value(const OptionValue& value) {
  if (auto* bytes = std::get_if<ByteCount>(&value)) return format_byte_count(bytes->bytes);
  if (auto* text = std::get_if<std::string>(&value)) return *text;
  if (auto* yes = std::get_if<bool>(&value)) return *yes ? "true" : "false";
  if (auto* number = std::get_if<int64_t>(&value)) return fmt::format("{}", *number);
  return format_duration(std::get<std::chrono::nanoseconds>(value));
}

Schema::Schema(std::vector<Option> options) : options_(std::move(options)) {
  std::set<std::string> in_environment;
  for (const Option& option : options_) {
    LEAT_CHECK(is_option_name(option.name));
    // "a.b" and "a_b" would share one variable.
    LEAT_CHECK(in_environment.insert(environment_name(option.name)).second);
    for (const std::string& bound : {option.min, option.max}) {
      LEAT_CHECK(bound.empty() || parse_unbounded(option, bound).has_value());
    }
    LEAT_CHECK(parse_option(option, option.default_text).has_value());
    names_.push_back(option.name);
  }
  for (const Option& option : options_) {
    // A key of a TOML file is a value or a table, not both.
    std::string as_section = option.name + ".";
    LEAT_CHECK(std::ranges::none_of(
        names_, [&](const std::string& name) { return name.starts_with(as_section); }));
  }
}

const Option* Schema::find(std::string_view name) const {
  auto found = std::ranges::find(options_, name, &Option::name);
  return found == options_.end() ? nullptr : &*found;
}

std::string environment_name(std::string_view option) {
  std::string name = "LEAT_";
  for (char c : option) {
    if (c == '.') c = '_';
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    name += c;
  }
  return name;
}

}  // namespace leat
