// SPDX-License-Identifier: Apache-2.0
// SlowLog: operations that took longer than a program should wait, with the reasons. Each goes to
// the log as one line, and the last ones stay in memory for status requests. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "telemetry/trace.h"

namespace leat {

struct SlowOperation {
  std::chrono::system_clock::time_point time{};  // when it ended
  std::string operation{};                       // "read", "lookup", "open", "list", "attributes"
  std::string path{};
  uint64_t offset = 0, bytes = 0;  // for a read
  std::chrono::nanoseconds took{};
  Span::Time end{};
  std::vector<Span> parts{};
  std::string failure{};  // empty if it succeeded

  // "source.request 1.92 s, fetch.limiter.wait 0.31 s": the parts that took most of the time,
  // longest first. Time that a part's own parts explain counts for those.
  std::string reason() const;
};

class SlowLog {
 public:
  static constexpr size_t kOperationsMax = 200;
  // Log lines a second. Further operations are only kept in memory.
  static constexpr unsigned kLinesMax = 5;

  // Zero: no operation is slow.
  void set_threshold(std::chrono::nanoseconds threshold) { threshold_ = threshold.count(); }
  bool is_slow(std::chrono::nanoseconds took) const {
    const int64_t threshold = threshold_.load(std::memory_order_relaxed);
    return threshold > 0 && took.count() >= threshold;
  }

  void add(SlowOperation operation);
  // Returns the kept operations, newest first.
  std::vector<SlowOperation> operations() const;

 private:
  std::atomic<int64_t> threshold_ = 0;
  mutable std::mutex mutex_;  // leaf
  std::deque<SlowOperation> operations_;
  std::chrono::steady_clock::time_point second_{};
  unsigned lines_ = 0;
};

// Returns the instance of the process; a daemon has one.
SlowLog& slow_log();

}  // namespace leat
