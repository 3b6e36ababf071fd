// SPDX-License-Identifier: Apache-2.0
#include "config/toml_document.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <tuple>

namespace leat {
namespace {

TomlValue value_of(const toml::node& node, std::string key) {
  TomlValue value;
  value.key = std::move(key);
  value.line = node.source().begin.line;
  if (const auto* text = node.as_string()) {
    value.kind = TomlValue::Kind::kString;
    value.text = text->get();
  } else if (const auto* number = node.as_integer()) {
    value.kind = TomlValue::Kind::kInteger;
    value.text = fmt::format("{}", number->get());
  } else if (const auto* yes = node.as_boolean()) {
    value.kind = TomlValue::Kind::kBool;
    value.text = yes->get() ? "true" : "false";
  }
  return value;
}

// The library bounds the nesting of tables.
void flatten(const toml::table& table, const std::string& prefix, std::vector<TomlValue>& values) {
  for (const auto& [key, node] : table) {
    std::string name = prefix + std::string(key.str());
    if (const toml::table* below = node.as_table()) {
      flatten(*below, name + ".", values);
    } else {
      values.push_back(value_of(node, std::move(name)));
    }
  }
}

}  // namespace

Result<std::vector<TomlValue>> parse_toml(std::string_view text, const std::string& name) {
  std::vector<TomlValue> values;
  try {
    flatten(toml::parse(text, std::string_view(name)), "", values);
  } catch (const toml::parse_error& failure) {
    auto at = failure.source().begin;
    return error(StatusCode::kInvalidArgument,
                 fmt::format("cannot read {}:{}:{} as TOML: {}", name, at.line, at.column,
                             failure.description()));
  }
  // The library sorts by key; errors must come in the order of the file.
  std::ranges::sort(values, {}, [](const TomlValue& value) {
    return std::tuple(value.line, std::string_view(value.key));
  });
  return values;
}

std::string quote_toml(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04X}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace leat
