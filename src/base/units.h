// SPDX-License-Identifier: Apache-2.0
// Byte counts and durations as people write them: "512MiB", "10G", "1.5TiB", "60s", "1h30m".
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;
inline constexpr uint64_t kTiB = 1024 * kGiB;

// Accepts binary units with or without "iB" ("64K" = "64KiB" = 65536); "KB", "MB" … are decimal. A
// bare number is bytes. Fractions are allowed. The message of kInvalidArgument names the fault.
Result<uint64_t> parse_bytes(std::string_view text);

// Shortest exact-looking form with binary units: "0 B", "64.0 KiB", "1.5 GiB".
std::string format_bytes(uint64_t bytes);

// Accepts "250ms", "60s", "5m", "1h30m", "7d". Rejects a bare number, since its unit would be a
// guess.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

// "250ms", "60s", "5m", "1h30m".
std::string format_duration(std::chrono::nanoseconds duration);

constexpr uint64_t align_down(uint64_t value, uint64_t unit) {
  return value - value % unit;
}
constexpr uint64_t align_up(uint64_t value, uint64_t unit) {
  return align_down(value + unit - 1, unit);
}

}  // namespace leat
