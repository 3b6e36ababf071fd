// SPDX-License-Identifier: Apache-2.0
// The log: spdlog behind some functions, so that no other room knows it. Thread-safe.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace leat::log {

enum class Level { kDebug, kInfo, kWarning, kError };

// kJson: an object a line, with time, level, message, and what event() was given.
enum class Format { kText, kJson };

struct Options {
  Level level = Level::kInfo;
  std::string file;  // empty: standard error
};

// Once, before threads start. Without it: warnings and errors to standard error.
void set_up(const Options& options);
// From now on.
void set_level(Level level);
void set_format(Format format);
bool enabled(Level level);
void write(Level level, std::string_view text);

// A message that programs read as well: the text says all that the fields do. Empty strings are
// left out.
using Field = std::pair<std::string_view, std::variant<std::string, uint64_t, double>>;
void event(Level level, std::string_view text, const std::vector<Field>& fields);

template <class... A>
void debug(fmt::format_string<A...> format, A&&... args) {
  if (enabled(Level::kDebug)) write(Level::kDebug, fmt::format(format, std::forward<A>(args)...));
}
template <class... A>
void info(fmt::format_string<A...> format, A&&... args) {
  if (enabled(Level::kInfo)) write(Level::kInfo, fmt::format(format, std::forward<A>(args)...));
}
template <class... A>
void warning(fmt::format_string<A...> format, A&&... args) {
  write(Level::kWarning, fmt::format(format, std::forward<A>(args)...));
}
template <class... A>
void error(fmt::format_string<A...> format, A&&... args) {
  write(Level::kError, fmt::format(format, std::forward<A>(args)...));
}

}  // namespace leat::log
