// SPDX-License-Identifier: Apache-2.0
// The log: spdlog behind five functions, so that no other room knows it. Thread-safe.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace leat::log {

enum class Level { kDebug, kInfo, kWarning, kError };

struct Options {
  Level level = Level::kInfo;
  std::string file;  // empty: standard error
};

// Once, before threads start. Without it: warnings and errors to standard error.
void set_up(const Options& options);
// From now on.
void set_level(Level level);
bool enabled(Level level);
void write(Level level, std::string_view text);

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
