// SPDX-License-Identifier: Apache-2.0
// Progress: one line on standard error that is written over while something long is under way.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace leat {

struct ProgressState {
  uint64_t bytes_done = 0;
  std::optional<uint64_t> bytes_total;  // once it is known
  uint64_t files_done = 0;
  std::optional<uint64_t> files_total;
  bool totals_grow = false;  // they are what is known so far
};

// "3 of 10 files, 1.0 GiB of 4.0 GiB, 25%, 512.0 MiB/s, 6s left"; "3 of 10 files so far, …" while
// the totals grow.
std::string describe_progress(const ProgressState& state, double bytes_per_second);

// Of the last ten seconds: what was there already, or a store that has become slow, is not spread
// over all that is still to come.
class RecentRate {
 public:
  using Clock = std::chrono::steady_clock;
  // Bytes a second, `bytes` of all being done now. May be called as often as one likes.
  double at(Clock::time_point now, uint64_t bytes);

 private:
  std::deque<std::pair<Clock::time_point, uint64_t>> seen_;
};

class Progress {
 public:
  // Shows nothing unless standard error is a terminal and `after` has passed.
  explicit Progress(std::chrono::milliseconds after = std::chrono::seconds(2));
  ~Progress();  // takes the line away

  void show(const ProgressState& state);
  // What is waited for, where nothing is counted.
  void show(const std::string& text);
  // Takes the line away until it is shown again: before anything else is written.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool is_due();
  void write(const std::string& text);

  const Clock::time_point started_ = Clock::now();
  const bool terminal_;
  Clock::time_point next_;
  RecentRate rate_;
  bool shown_ = false;
};

}  // namespace leat
