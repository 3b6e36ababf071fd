// SPDX-License-Identifier: Apache-2.0
#include "source/io_timeout.h"

#include <string>
#include <utility>

#include "base/units.h"

namespace leat {
namespace {

constexpr std::string_view kNever = "never";
// A longer timeout would overflow the clock's time points; in practice it is unlimited.
constexpr std::chrono::nanoseconds kLongest = std::chrono::years(10);

}  // namespace

Result<Clock::duration> io_timeout_of(const StoreUrl& url) {
  const auto given = url.options.find(std::string(kIoTimeoutOption));
  if (given == url.options.end()) return kIoTimeoutDefault;
  if (given->second == kNever) return Clock::duration::max();
  Result<std::chrono::nanoseconds> time = parse_duration(given->second);
  if (time) return *time < kLongest ? Clock::duration(*time) : Clock::duration::max();
  return error(time.error().with_context("option io_timeout has to be a duration, or never"));
}

StoreUrl without_waiting(StoreUrl url) {
  url.options.try_emplace(std::string(kIoTimeoutOption), "0s");
  return url;
}

std::string io_timeout_text(Clock::duration io_timeout) {
  return io_timeout == Clock::duration::max() ? std::string(kNever) : format_duration(io_timeout);
}

std::string waits_text(Clock::duration io_timeout) {
  if (io_timeout <= Clock::duration::zero()) return "";
  if (io_timeout == Clock::duration::max()) return "until it does (io_timeout=never)";
  return "up to " + format_duration(io_timeout) + " (io_timeout)";
}

}  // namespace leat
