// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/top/top_layout.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "apps/cli/command/progress.h"
#include "base/text_table.h"
#include "base/units.h"

namespace leat {
namespace {

constexpr size_t kBarColumns = 20;
// In the overview; the view `slow` shows all.
constexpr size_t kSlowShown = 10;
constexpr std::array kSteps = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kAsciiSteps = "_.-=+*%#";

using Lines = std::vector<std::string>;

std::string framed(double share, const TopStyle& style) {
  return "[" + bar(share, style, kBarColumns) + "]";
}

double part_of(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

std::string origin_name(std::string_view origin) {
  if (origin == "source") return "store";
  if (origin == "local_disk") return "local disk";
  return std::string(origin);
}

std::string mean_text(const std::optional<double>& seconds) {
  return seconds ? format_seconds(*seconds) : "-";
}

// Returns the local time of day, with the date if it is not today.
std::string clock_text(WallTime time, WallTime now) {
  auto parts_of = [](WallTime of) {
    const std::time_t seconds =
        std::chrono::floor<std::chrono::seconds>(of).time_since_epoch() / std::chrono::seconds(1);
    std::tm parts{};
    localtime_r(&seconds, &parts);
    return parts;
  };
  const std::tm then = parts_of(time), today = parts_of(now);
  const bool same_day = then.tm_yday == today.tm_yday && then.tm_year == today.tm_year;
  return same_day ? fmt::format("{:%H:%M:%S}", then) : fmt::format("{:%Y-%m-%d %H:%M:%S}", then);
}

void append(Lines& lines, const TextTable& table) {
  const std::string text = table.to_string();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
}

// Appends a heading and a table; omits both if the table has only its header.
void append_part(Lines& lines, const TextTable& table) {
  lines.emplace_back();
  append(lines, table);
}

// A rate of 0 means nothing while files are in passthrough.
std::string program_rate(double bytes_per_second, bool kernel_reads) {
  const bool silent = bytes_per_second <= 0 && kernel_reads;
  return silent ? "not counted" : format_byte_rate(bytes_per_second);
}

void add_throughput(Lines& lines, const TopSample& sample, const TopStyle& style,
                    const std::vector<std::optional<double>>& history) {
  std::string first = fmt::format("{:<14}{:>12}", "to programs",
                                  program_rate(sample.bytes_per_second, sample.kernel_reads()));
  if (!history.empty()) {
    const size_t room = style.columns > 30 ? style.columns - 30 : 0;
    first += "  " + sparkline(history, style, room);
  }
  lines.push_back(first);
  for (const TopSample::Origin& one : sample.origins) {
    lines.push_back(fmt::format(
        "  {:<12}{:>12}  {}", origin_name(one.origin), format_byte_rate(one.bytes_per_second),
        framed(part_of(one.bytes_per_second, sample.bytes_per_second), style)));
  }
  lines.push_back(sample.hit_share
                      ? fmt::format("  {:<12}{:>11.0f}%  {}", "hits", *sample.hit_share * 100,
                                    framed(*sample.hit_share, style))
                      : fmt::format("  {:<12}{:>12}", "hits", "-"));
  lines.push_back(fmt::format("  {:<12}{:>12}  {} open {} passed through to it", "kernel",
                              "not counted", sample.passthrough_files,
                              sample.passthrough_files == 1 ? "file is" : "files are"));
  lines.push_back(fmt::format("{:<14}{:>12}  from stores, load jobs included", "loaded",
                              format_byte_rate(sample.loaded_bytes_per_second)));
}

void add_state(Lines& lines, const TopSample& sample, const TopStyle& style) {
  lines.emplace_back();
  lines.push_back(fmt::format("memory    {} {} of {} in buffers, {} resident",
                              framed(part_of(sample.memory_bytes, sample.memory_bytes_max), style),
                              format_bytes(sample.memory_bytes),
                              format_bytes(sample.memory_bytes_max),
                              format_bytes(sample.rss_bytes)));
  lines.push_back(fmt::format(
      "cache     {} {} of {}",
      framed(part_of(sample.cache_used_bytes, sample.cache_capacity_bytes), style),
      format_bytes(sample.cache_used_bytes), format_bytes(sample.cache_capacity_bytes)));
  lines.push_back(fmt::format(
      "reads     {} waiting for memory, {} streams with {} ahead; {} opens passed through, {}",
      sample.reads_waiting, sample.streams, format_bytes(sample.window_bytes),
      sample.passthrough_opens, format_rate(sample.passthrough_opens_per_second)));
  std::string requests = fmt::format("requests  {} in flight", sample.requests_in_flight);
  for (const TopSample::Operation& one : sample.operations) {
    const bool rare = one.operation == "write" || one.operation == "remove";
    if (rare && one.requests_per_second == 0) continue;
    requests += fmt::format(", {} {}", one.operation, format_rate(one.requests_per_second));
  }
  requests +=
      fmt::format("; retries {}, throttled {}, failed {}", format_rate(sample.retries_per_second),
                  format_rate(sample.throttled_per_second), format_rate(sample.failed_per_second));
  lines.push_back(requests);
}

void add_stores(Lines& lines, const TopSample& sample) {
  if (sample.stores.empty()) return;
  TextTable table("lrrr");
  table.add({"STORE", "REQUESTS", "MEAN", "READ"});
  for (const TopSample::Store& one : sample.stores) {
    const bool twice = std::ranges::count(sample.stores, one.store, &TopSample::Store::store) > 1;
    table.add({twice ? fmt::format("{} ({})", one.store, one.store_id) : one.store,
               format_rate(one.requests_per_second), mean_text(one.mean_seconds),
               format_byte_rate(one.bytes_per_second)});
  }
  append_part(lines, table);
}

void add_folders(Lines& lines, const TopSample& sample) {
  TextTable table("lrrrrl");
  table.add({"FOLDER", "READ", "READS", "WAITED", "ERRORS", "SOURCE"});
  for (const TopSample::Mount& one : sample.mounts) {
    table.add({one.path, program_rate(one.bytes_per_second, one.passthrough_files > 0),
               format_rate(one.reads_per_second), mean_text(one.mean_seconds),
               format_rate(one.errors_per_second), one.source});
  }
  append_part(lines, table);
}

void add_jobs(Lines& lines, const TopSample& sample) {
  if (sample.jobs.empty()) return;
  TextTable table("rlll");
  table.add({"JOB", "KIND", "PROGRESS", "PATH"});
  for (const JobView& job : sample.jobs) {
    ProgressState state;
    state.bytes_done = job.bytes_done;
    state.files_done = job.files_done;
    if (job.planned) {
      state.files_total = job.files_total;
      if (job.bytes_total > 0) state.bytes_total = job.bytes_total;
    }
    const double rate = part_of(static_cast<double>(job.bytes_done), job.seconds);
    table.add({std::to_string(job.id), job.title(), describe_progress(state, rate), job.path});
  }
  append_part(lines, table);
}

void add_slow(Lines& lines, const TopSample& sample, size_t most) {
  TextTable table("lrlll");
  table.add({"SLOW AT", "TOOK", "OPERATION", "PATH", "REASON"});
  for (const SlowView& one : sample.slow) {
    if (most-- == 0) break;
    table.add({clock_text(one.time, sample.time), format_seconds(one.seconds), one.operation,
               one.path, one.failure.empty() ? one.reason : one.reason + "; " + one.failure});
  }
  append_part(lines, table);
}

}  // namespace

std::string_view to_string(TopView view) {
  switch (view) {
    case TopView::kOverview:
      return "overview";
    case TopView::kMounts:
      return "mounts";
    case TopView::kSlow:
      return "slow operations";
  }
  return "";
}

void TopHistory::add(Time at, double seconds, double bytes_per_second) {
  const auto took =
      std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds));
  spans_.push_back({.from = at - took, .to = at, .bytes_per_second = bytes_per_second});
  while (at - spans_.front().to > std::chrono::seconds(kSeconds)) spans_.pop_front();
}

void TopHistory::begin_with(const HistoryView& history, Time now) {
  const std::vector<double>& ages = history.ages_seconds;
  std::vector<double> bytes(ages.size());
  for (const auto& [name, values] : history.series) {
    if (!name.starts_with("leat_fetch_bytes_total{") || values.size() != bytes.size()) continue;
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] += values[i];
  }
  for (size_t i = 1; i < ages.size(); ++i) {
    const double seconds = ages[i - 1] - ages[i];
    if (seconds <= 0 || ages[i] > static_cast<double>(kSeconds)) continue;
    const auto ago =
        std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(ages[i]));
    add(now - ago, seconds, (bytes[i] - bytes[i - 1]) / seconds);
  }
}

std::vector<std::optional<double>> TopHistory::by_second(Time now) const {
  std::vector<std::optional<double>> values(kSeconds);
  for (size_t i = 0; i < kSeconds; ++i) {
    const Time to = now - std::chrono::seconds(kSeconds - 1 - i);
    const Time from = to - std::chrono::seconds(1);
    double sum = 0, seconds = 0;
    for (const Span& span : spans_) {
      const double shared =
          std::chrono::duration<double>(std::min(to, span.to) - std::max(from, span.from)).count();
      if (shared <= 0) continue;
      sum += span.bytes_per_second * shared;
      seconds += shared;
    }
    if (seconds > 0) values[i] = sum / seconds;
  }
  return values;
}

std::string bar(double share, const TopStyle& style, size_t columns) {
  constexpr size_t kEighths = 8;
  static constexpr std::array kParts = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  share = std::clamp(share, 0.0, 1.0);
  // A non-zero share is always visible.
  const auto eighths = static_cast<size_t>(
      std::max(std::round(share * static_cast<double>(columns * kEighths)), share > 0 ? 1.0 : 0.0));
  size_t full = eighths / kEighths, used = full;
  std::string text;
  if (!style.utf8) {
    used = eighths > 0 && full == 0 ? 1 : full;
    text.assign(used, '#');
  } else {
    for (; full > 0; --full) text += "█";
    text += kParts[eighths % kEighths];
    if (eighths % kEighths != 0) ++used;
  }
  return text + std::string(columns - used, ' ');
}

std::string sparkline(const std::vector<std::optional<double>>& values, const TopStyle& style,
                      size_t columns) {
  const size_t first = values.size() > columns ? values.size() - columns : 0;
  double most = 0;
  for (size_t i = first; i < values.size(); ++i) most = std::max(most, values[i].value_or(0));
  std::string text;
  for (size_t i = first; i < values.size(); ++i) {
    if (!values[i]) {
      text += ' ';
      continue;
    }
    const auto step = static_cast<size_t>(
        std::lround(part_of(*values[i], most) * static_cast<double>(kSteps.size() - 1)));
    if (style.utf8) {
      text += kSteps[step];
    } else {
      text += kAsciiSteps[step];
    }
  }
  return text;
}

std::string format_byte_rate(double bytes_per_second) {
  return format_bytes(static_cast<uint64_t>(std::max(bytes_per_second, 0.0))) + "/s";
}

std::string format_rate(double per_second) {
  return per_second < 9.95 ? fmt::format("{:.1f}/s", per_second)
                           : fmt::format("{:.0f}/s", per_second);
}

std::string format_seconds(double seconds) {
  if (seconds < 0.00095) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.00995) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::vector<std::string> top_lines(const TopSample& sample, TopView view, const TopStyle& style,
                                   const std::vector<std::optional<double>>& history) {
  Lines lines;
  const auto up = std::chrono::seconds(static_cast<int64_t>(sample.uptime_seconds));
  lines.push_back(
      printable(fmt::format("leat {}, pid {}, up {}; {}", sample.version, sample.pid,
                            format_duration(up), clock_text(sample.time, sample.time))));
  if (view == TopView::kMounts) add_folders(lines, sample);
  if (view == TopView::kSlow) add_slow(lines, sample, sample.slow.size());
  if (view != TopView::kOverview) return lines;
  add_throughput(lines, sample, style, history);
  add_state(lines, sample, style);
  add_stores(lines, sample);
  add_folders(lines, sample);
  add_jobs(lines, sample);
  if (!sample.slow.empty()) add_slow(lines, sample, kSlowShown);
  return lines;
}

}  // namespace leat
