// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/command/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/pluralize.h"
#include "base/units.h"

namespace leat {

std::string describe_progress(const ProgressState& state, double rate) {
  std::string text;
  if (state.files_total) {
    text = fmt::format("{} of {}{}, ", state.files_done, pluralize(*state.files_total, "file"),
                       state.totals_grow ? " so far" : "");
  } else if (state.files_done != 0) {
    text = pluralize(state.files_done, "file") + ", ";
  }
  text += format_bytes(state.bytes_done);
  if (state.bytes_total) text += " of " + format_bytes(*state.bytes_total);
  if (state.bytes_total && *state.bytes_total > 0) {
    const double share =
        static_cast<double>(state.bytes_done) / static_cast<double>(*state.bytes_total);
    text += fmt::format(", {}%", static_cast<int>(std::min(share, 1.0) * 100));
  }
  text += fmt::format(", {}/s", format_bytes(static_cast<uint64_t>(rate)));
  if (state.bytes_total && rate >= 1 && *state.bytes_total > state.bytes_done) {
    double left = static_cast<double>(*state.bytes_total - state.bytes_done) / rate;
    // A tiny rate would give an estimate of centuries.
    left = std::min(left, 99.0 * 3600);
    text += fmt::format(", {} left",
                        format_duration(std::chrono::seconds(static_cast<int64_t>(left) + 1)));
  }
  return text;
}

double RecentRate::at(Clock::time_point now, uint64_t bytes) {
  constexpr auto kWindow = std::chrono::seconds(10);
  constexpr auto kStep = std::chrono::milliseconds(50);
  // Bytes of a failed file are subtracted again.
  if (!seen_.empty() && bytes < seen_.back().second) seen_.clear();
  if (seen_.size() > 1 && now - seen_[seen_.size() - 2].first < kStep) seen_.pop_back();
  seen_.emplace_back(now, bytes);
  while (seen_.size() > 2 && now - seen_[1].first >= kWindow) seen_.pop_front();
  const auto& [since, then] = seen_.front();
  const double seconds = std::chrono::duration<double>(now - since).count();
  return seconds > 0 ? static_cast<double>(bytes - then) / seconds : 0;
}

Progress::Progress(std::chrono::milliseconds after)
    : terminal_(isatty(STDERR_FILENO) == 1), next_(started_ + after) {}

Progress::~Progress() {
  clear();
}

void Progress::clear() {
  if (!std::exchange(shown_, false)) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

bool Progress::is_due() {
  const auto now = Clock::now();
  if (!terminal_ || now < next_) return false;
  next_ = now + std::chrono::milliseconds(200);
  return true;
}

void Progress::write(const std::string& text) {
  shown_ = true;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

void Progress::show(const ProgressState& state) {
  if (!terminal_) return;
  // Sample before the first output, too, so that the first line has a rate.
  const double rate = rate_.at(Clock::now(), state.bytes_done);
  if (is_due()) write(describe_progress(state, rate));
}

void Progress::show(const std::string& text) {
  if (is_due()) write(text);
}

}  // namespace leat
