// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace leat {
namespace {

struct Number {
  double value;
  std::string_view rest;
};

std::optional<Number> leading_number(std::string_view text) {
  double value = 0;
  auto [end, ec] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (ec != std::errc() || end == text.data() || !std::isfinite(value) || value < 0) {
    return std::nullopt;
  }
  return Number{value, text.substr(static_cast<size_t>(end - text.data()))};
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

struct ByteUnit {
  std::string_view name;
  double factor;
};

constexpr std::array kByteUnits = {
    ByteUnit{"", 1},       ByteUnit{"B", 1},      ByteUnit{"K", kKiB},   ByteUnit{"KiB", kKiB},
    ByteUnit{"KB", 1e3},   ByteUnit{"M", kMiB},   ByteUnit{"MiB", kMiB}, ByteUnit{"MB", 1e6},
    ByteUnit{"G", kGiB},   ByteUnit{"GiB", kGiB}, ByteUnit{"GB", 1e9},   ByteUnit{"T", kTiB},
    ByteUnit{"TiB", kTiB}, ByteUnit{"TB", 1e12},
};

struct TimeUnit {
  std::string_view name;
  double nanoseconds;
};

// Longest first, so that "ms" is not read as minutes and "s".
constexpr std::array kTimeUnits = {
    TimeUnit{"ms", 1e6},   TimeUnit{"us", 1e3}, TimeUnit{"ns", 1},  TimeUnit{"d", 86400e9},
    TimeUnit{"h", 3600e9}, TimeUnit{"m", 60e9}, TimeUnit{"s", 1e9},
};

constexpr double kNanosecondsMax = 9.2e18;  // maximum of int64_t, rounded down
constexpr double kBytesMax = 9.2e18;

}  // namespace

Result<uint64_t> parse_bytes(std::string_view text) {
  auto number = leading_number(trim(text));
  if (!number) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("'{}' is not a size; write for example 512MiB or 10G", text));
  }
  std::string_view unit = trim(number->rest);
  for (const ByteUnit& known : kByteUnits) {
    if (unit != known.name) continue;
    double bytes = number->value * known.factor;
    if (bytes > kBytesMax) {
      return error(StatusCode::kInvalidArgument, fmt::format("size '{}' is too large", text));
    }
    return static_cast<uint64_t>(std::llround(bytes));
  }
  return error(StatusCode::kInvalidArgument,
               fmt::format("size '{}' has an unknown unit '{}'; known: B, K, KiB, KB, M, MiB, MB, "
                           "G, GiB, GB, T, TiB, TB",
                           text, unit));
}

std::string format_bytes(uint64_t bytes) {
  constexpr std::array kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / kKiB;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kNames.size()) {
    value /= kKiB;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  std::string_view rest = trim(text);
  double total = 0;
  bool any = false;
  while (!rest.empty()) {
    auto number = leading_number(rest);
    if (!number) break;
    const TimeUnit* found = nullptr;
    for (const TimeUnit& known : kTimeUnits) {
      if (number->rest.starts_with(known.name)) {
        found = &known;
        break;
      }
    }
    if (found == nullptr) break;
    total += number->value * found->nanoseconds;
    rest = number->rest.substr(found->name.size());
    any = true;
  }
  if (!any || !rest.empty() || total > kNanosecondsMax) {
    return error(
        StatusCode::kInvalidArgument,
        fmt::format("'{}' is not a duration; write for example 250ms, 60s, 5m, 1h30m, 7d", text));
  }
  return std::chrono::nanoseconds(std::llround(total));
}

std::string format_duration(std::chrono::nanoseconds duration) {
  using namespace std::chrono;
  if (duration % 1s != 0ns) {
    if (duration % 1ms == 0ns) return fmt::format("{}ms", duration / 1ms);
    return fmt::format("{}us", duration / 1us);
  }
  auto total_seconds = duration_cast<seconds>(duration).count();
  // Whole days read better than hours; "1d1h" does not.
  if (total_seconds != 0 && total_seconds % 86400 == 0) {
    return fmt::format("{}d", total_seconds / 86400);
  }
  auto hours = total_seconds / 3600;
  auto minutes = total_seconds / 60 % 60;
  auto rest = total_seconds % 60;
  std::string text;
  if (hours != 0) text += fmt::format("{}h", hours);
  if (minutes != 0) text += fmt::format("{}m", minutes);
  if (rest != 0 || text.empty()) text += fmt::format("{}s", rest);
  return text;
}

}  // namespace leat
