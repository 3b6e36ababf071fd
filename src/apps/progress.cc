// SPDX-License-Identifier: Apache-2.0
#include "apps/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/units.h"

namespace leat {

std::string describe_progress(const ProgressState& state, std::chrono::duration<double> elapsed) {
  std::string text;
  if (state.files_total) {
    text = fmt::format("{} of {} files, ", state.files_done, *state.files_total);
  } else if (state.files_done != 0) {
    text = fmt::format("{} files, ", state.files_done);
  }
  text += format_bytes(state.bytes_done);
  if (state.bytes_total) text += " of " + format_bytes(*state.bytes_total);
  double seconds = std::max(elapsed.count(), 1e-3);
  double rate = static_cast<double>(state.bytes_done) / seconds;
  text += fmt::format(", {}/s", format_bytes(static_cast<uint64_t>(rate)));
  if (state.bytes_total && rate >= 1 && *state.bytes_total > state.bytes_done) {
    double left = static_cast<double>(*state.bytes_total - state.bytes_done) / rate;
    // A rate of next to nothing would promise centuries.
    left = std::min(left, 99.0 * 3600);
    text += fmt::format(", {} left",
                        format_duration(std::chrono::seconds(static_cast<int64_t>(left) + 1)));
  }
  return text;
}

Progress::Progress(std::chrono::milliseconds after)
    : terminal_(isatty(STDERR_FILENO) == 1), next_(started_ + after) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::show(const ProgressState& state) {
  auto now = Clock::now();
  if (!terminal_ || now < next_) return;
  next_ = now + std::chrono::milliseconds(200);
  shown_ = true;
  std::fprintf(stderr, "\r\033[K%s", describe_progress(state, now - started_).c_str());
  std::fflush(stderr);
}

}  // namespace leat
