// SPDX-License-Identifier: Apache-2.0
// Progress: one line on standard error that is written over while something long is under way.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace leat {

struct ProgressState {
  uint64_t bytes_done = 0;
  std::optional<uint64_t> bytes_total;  // once it is known
  uint64_t files_done = 0;
  std::optional<uint64_t> files_total;
};

// "3 of 10 files, 1.0 GiB of 4.0 GiB, 512.0 MiB/s, 6s left"
std::string describe_progress(const ProgressState& state, std::chrono::duration<double> elapsed);

class Progress {
 public:
  // Says nothing unless standard error is a terminal and `after` has passed.
  explicit Progress(std::chrono::milliseconds after = std::chrono::seconds(2));
  ~Progress();  // takes the line away

  void show(const ProgressState& state);

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point started_ = Clock::now();
  const bool terminal_;
  Clock::time_point next_;
  bool shown_ = false;
};

}  // namespace leat
