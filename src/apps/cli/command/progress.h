// SPDX-License-Identifier: Apache-2.0
// Progress: one line on standard error that is overwritten during a long operation.
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
  std::optional<uint64_t> bytes_total;  // empty until it is known
  uint64_t files_done = 0;
  std::optional<uint64_t> files_total;
  bool totals_grow = false;  // more may be found
};

// Returns "3 of 10 files, 1.0 GiB of 4.0 GiB, 25%, 512.0 MiB/s, 6s left". Adds "so far" to the
// totals while they grow.
std::string describe_progress(const ProgressState& state, double bytes_per_second);

// The rate of the last ten seconds. So bytes that were cached before, or a store that has become
// slow, do not distort the remaining time.
class RecentRate {
 public:
  using Clock = std::chrono::steady_clock;
  // Returns bytes a second; `bytes` are the sum so far. May be called at any frequency.
  double at(Clock::time_point now, uint64_t bytes);

 private:
  std::deque<std::pair<Clock::time_point, uint64_t>> seen_;
};

class Progress {
 public:
  // Shows nothing unless standard error is a terminal and `after` has passed.
  explicit Progress(std::chrono::milliseconds after = std::chrono::seconds(2));
  ~Progress();  // erases the line

  void show(const ProgressState& state);
  // Shows what the command waits for, if there is nothing to count.
  void show(const std::string& text);
  // Erases the line until the next show(): before other output.
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
