// SPDX-License-Identifier: Apache-2.0
// MetricHistory: values of a few metrics at regular times, for charts that begin before a page was
// opened. A ring buffer of at most `samples_max` samples, 8 bytes a name each. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "telemetry/metrics.h"

namespace leat {

class MetricHistory {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `names` are metrics with their labels in braces, as in the text form. `samples_max` > 0.
  MetricHistory(std::vector<std::string> names, size_t samples_max);

  // Adds a sample, and drops the oldest one if the ring is full. Times must increase. A metric that
  // is missing in `samples` counts as 0: it does not exist yet.
  void record(Time at, const std::vector<MetricSample>& samples);

  struct View {
    std::vector<Time> at;                     // oldest first
    std::vector<std::vector<double>> values;  // one row a name, one value a time
  };
  View view() const;
  const std::vector<std::string>& names() const { return names_; }

 private:
  struct Sample {
    Time at;
    std::vector<double> values;
  };

  const std::vector<std::string> names_;
  const size_t samples_max_;
  mutable std::mutex mutex_;  // leaf
  std::vector<Sample> ring_;
  size_t oldest_ = 0;
};

}  // namespace leat
