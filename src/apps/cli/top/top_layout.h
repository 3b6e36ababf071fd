// SPDX-License-Identifier: Apache-2.0
// A sample as lines of text, for the screen and for --once. Pure functions that do not depend on a
// terminal.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/top/top_sample.h"

namespace leat {

enum class TopView : uint8_t { kOverview, kMounts, kSlow };
std::string_view to_string(TopView view);

// Throughput of the last minute.
class TopHistory {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr size_t kSeconds = 60;

  void add(Time at, double seconds, double bytes_per_second);
  // Starts with the history of the daemon; call before any add().
  void begin_with(const HistoryView& history, Time now);
  // Returns one value a second, oldest first; nothing for seconds without a sample.
  std::vector<std::optional<double>> by_second(Time now) const;

 private:
  struct Span {
    Time from, to;
    double bytes_per_second;
  };
  std::deque<Span> spans_;
};

struct TopStyle {
  bool utf8 = true;  // false: ASCII only
  size_t columns = 100;
};

// Returns "█████▌    " or "#####     ", `columns` wide; `share` is 0 to 1.
std::string bar(double share, const TopStyle& style, size_t columns);
// Returns "▁▂▃▅▇█", relative to the largest value, for the newest `columns` values or all.
std::string sparkline(const std::vector<std::optional<double>>& values, const TopStyle& style,
                      size_t columns);

// "1.5 GiB/s", "12.5/s", "250 us", "1.20 s"
std::string format_byte_rate(double bytes_per_second);
std::string format_rate(double per_second);
std::string format_seconds(double seconds);

// Returns lines without control characters. They may exceed the style's columns: names are not cut
// here. `history` may be empty.
std::vector<std::string> top_lines(const TopSample& sample, TopView view, const TopStyle& style,
                                   const std::vector<std::optional<double>>& history);

}  // namespace leat
