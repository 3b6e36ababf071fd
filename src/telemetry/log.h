// SPDX-License-Identifier: Apache-2.0
// The log: spdlog behind a few functions, so that no other module depends on it. Thread-safe.
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

// kJson writes one object a line, with time, level, message and the fields of event().
enum class Format { kText, kJson };

struct Options {
  Level level = Level::kInfo;
  std::string file;  // empty: standard error
};

// Call once, before threads start. Without it, warnings and errors go to standard error.
void set_up(const Options& options);
// Takes effect immediately.
void set_level(Level level);
void set_format(Format format);
bool enabled(Level level);
void write(Level level, std::string_view text);

// Logs a message that programs read as well. The text contains all that the fields do. Fields that
// are empty strings are omitted.
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
