// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/read_file.h"
#include "config/nearest.h"
#include "config/toml_document.h"

namespace leat {
namespace {

constexpr std::string_view kEnvironmentPrefix = "LEAT_";

// Returns one line, since it stands in a comment.
std::string describe(const OptionSource& source) {
  std::string location = source.location;
  std::ranges::replace_if(location, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  if (source.origin == OptionOrigin::kDefault) return "default";
  const char* in_front = source.origin == OptionOrigin::kFile ? "from " : "from the ";
  const char* behind = source.origin == OptionOrigin::kFile ? " " : ", ";
  return fmt::format("{}{}{}{}", in_front, to_string(source.origin), behind, location);
}

// Checks that the TOML kind of the value, with or without quotes, suits the option's type.
Result<> check_kind(const Option& option, const TomlValue& value) {
  using Kind = TomlValue::Kind;
  bool fits = false;
  switch (option.type) {
    case OptionType::kBytes:
      fits = value.kind == Kind::kString || value.kind == Kind::kInteger;
      break;
    case OptionType::kDuration:
      fits = value.kind == Kind::kString;
      break;
    case OptionType::kString:
      fits = value.kind == Kind::kString;
      break;
    case OptionType::kBool:
      fits = value.kind == Kind::kBool;
      break;
    case OptionType::kInteger:
      fits = value.kind == Kind::kInteger;
      break;
  }
  if (fits) return {};
  std::string example = option.default_text;
  if (option.type != OptionType::kBool && option.type != OptionType::kInteger) {
    example = quote_toml(example);
  }
  return error(StatusCode::kInvalidArgument,
               fmt::format("{} is not a {}; write for example {} = {}", option.name,
                           to_string(option.type), option.name, example));
}

Result<std::string> read_whole(const std::string& path) {
  Result<std::string> text = read_file(path);
  if (text) return text;
  return error(text.error().with_context("the configuration file cannot be used"));
}

}  // namespace

std::string_view to_string(OptionOrigin origin) {
  switch (origin) {
    case OptionOrigin::kDefault:
      return "default";
    case OptionOrigin::kFile:
      return "file";
    case OptionOrigin::kEnvironment:
      return "environment";
    case OptionOrigin::kFlag:
      return "command line";
  }
  return "default";
}

Config::Config(Schema schema) : schema_(std::move(schema)) {
  for (const Option& option : schema_.options()) {
    // The schema has checked that the default parses.
    settings_[option.name] = {parse_option(option, option.default_text).value(), {}};
  }
}

Result<> Config::add(Layer& layer, std::string_view name, std::string_view text,
                     OptionSource source) const {
  const Option* option = schema_.find(name);
  if (option == nullptr) {
    return error(StatusCode::kInvalidArgument, fmt::format("there is no option '{}'{}", name,
                                                           did_you_mean(name, schema_.names())));
  }
  LEAT_TRY(OptionValue value, parse_option(*option, text));
  layer[option->name] = {std::move(value), std::move(source)};
  return {};
}

void Config::apply(Layer layer) {
  for (auto& [name, setting] : layer) {
    Setting& current = settings_.find(name)->second;
    if (current.source.origin <= setting.source.origin) current = std::move(setting);
  }
}

Result<> Config::read_file(const std::string& path) {
  LEAT_TRY(std::string text, read_whole(path));
  return read_toml(text, path);
}

Result<> Config::read_toml(std::string_view text, const std::string& name) {
  LEAT_TRY(std::vector<TomlValue> values, parse_toml(text, name));
  Layer layer;
  for (const TomlValue& value : values) {
    std::string location = fmt::format("{}:{}", name, value.line);
    const Option* option = schema_.find(value.key);
    Result<> fits = option != nullptr ? check_kind(*option, value) : Result<>();
    if (fits) fits = add(layer, value.key, value.text, {OptionOrigin::kFile, location});
    if (!fits) {
      return error(fits.error().code(), fmt::format("{}: {}", location, fits.error().message()));
    }
  }
  apply(std::move(layer));
  return {};
}

Result<> Config::read_environment(std::span<const char* const> variables,
                                  std::span<const std::string> reserved) {
  std::map<std::string, std::string, std::less<>> known;  // by variable
  std::vector<std::string> names;
  for (const Option& option : schema_.options()) {
    names.push_back(environment_name(option.name));
    known[names.back()] = option.name;
  }
  Layer layer;
  for (std::string_view variable : variables) {
    std::string_view name = variable.substr(0, variable.find('='));
    if (!name.starts_with(kEnvironmentPrefix) || name.size() == variable.size()) continue;
    if (std::ranges::find(reserved, name) != reserved.end()) continue;
    auto option = known.find(name);
    if (option == known.end()) {
      return error(StatusCode::kInvalidArgument,
                   fmt::format("environment variable {}: there is no such option{}", name,
                               did_you_mean(name, names)));
    }
    Result<> added = add(layer, option->second, variable.substr(name.size() + 1),
                         {OptionOrigin::kEnvironment, std::string(name)});
    if (!added) {
      return error(added.error().code(),
                   fmt::format("environment variable {}: {}", name, added.error().message()));
    }
  }
  apply(std::move(layer));
  return {};
}

Result<> Config::set(std::string_view name, std::string_view text, std::string location) {
  Layer layer;
  LEAT_CHECK_OK(add(layer, name, text, {OptionOrigin::kFlag, std::move(location)}));
  apply(std::move(layer));
  return {};
}

const Config::Setting& Config::setting(std::string_view name) const {
  auto found = settings_.find(name);
  LEAT_CHECK(found != settings_.end());
  return found->second;
}

const OptionValue& Config::value(std::string_view name) const {
  return setting(name).value;
}
const OptionSource& Config::source(std::string_view name) const {
  return setting(name).source;
}

uint64_t Config::bytes(std::string_view name) const {
  const auto* found = std::get_if<ByteCount>(&value(name));
  LEAT_CHECK(found != nullptr);
  return found->bytes;
}

std::chrono::nanoseconds Config::duration(std::string_view name) const {
  const auto* found = std::get_if<std::chrono::nanoseconds>(&value(name));
  LEAT_CHECK(found != nullptr);
  return *found;
}

const std::string& Config::text(std::string_view name) const {
  const auto* found = std::get_if<std::string>(&value(name));
  LEAT_CHECK(found != nullptr);
  return *found;
}

bool Config::boolean(std::string_view name) const {
  const auto* found = std::get_if<bool>(&value(name));
  LEAT_CHECK(found != nullptr);
  return *found;
}

int64_t Config::integer(std::string_view name) const {
  const auto* found = std::get_if<int64_t>(&value(name));
  LEAT_CHECK(found != nullptr);
  return *found;
}

std::string Config::to_toml() const {
  // Options without a section sort first: after a table's header they would belong to the table.
  std::map<std::string, std::vector<const Option*>> sections;
  for (const Option& option : schema_.options()) {
    size_t dot = option.name.rfind('.');
    sections[dot == std::string::npos ? "" : option.name.substr(0, dot)].push_back(&option);
  }
  std::string out;
  for (const auto& [section, options] : sections) {
    if (!section.empty()) out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section);
    for (const Option* option : options) {
      const Setting& current = setting(option->name);
      bool bare = option->type == OptionType::kBool || option->type == OptionType::kInteger;
      std::string text = format_value(current.value);
      out += fmt::format("# {} ({}{})\n{} = {}\n", option->help, describe(current.source),
                         option->reloadable ? "; changes without a restart" : "",
                         option->name.substr(section.empty() ? 0 : section.size() + 1),
                         bare ? text : quote_toml(text));
    }
  }
  return out;
}

std::string Config::to_template() const {
  std::string out;
  std::string section;
  for (const Option& option : schema_.options()) {
    const size_t dot = option.name.rfind('.');
    const std::string its = dot == std::string::npos ? "" : option.name.substr(0, dot);
    if (its != section) out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", its);
    section = its;
    const bool bare = option.type == OptionType::kBool || option.type == OptionType::kInteger;
    const std::string range = range_of(option);
    out += fmt::format("# {}{}{}\n#{} = {}\n", option.help, range.empty() ? "" : "; " + range,
                       option.reloadable ? " (leat config reload changes it)" : "",
                       option.name.substr(dot == std::string::npos ? 0 : dot + 1),
                       bare ? option.default_text : quote_toml(option.default_text));
  }
  return out;
}

std::vector<std::string> Config::differences(const Config& other) const {
  std::vector<std::string> names;
  for (const Option& option : schema_.options()) {
    if (value(option.name) != other.value(option.name)) names.push_back(option.name);
  }
  return names;
}

}  // namespace leat
