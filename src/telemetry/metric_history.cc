// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metric_history.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leat {

MetricHistory::MetricHistory(std::vector<std::string> names, size_t samples_max)
    : names_(std::move(names)), samples_max_(samples_max) {
  LEAT_CHECK(samples_max > 0);
}

void MetricHistory::record(Time at, const std::vector<MetricSample>& samples) {
  Sample sample{.at = at, .values = std::vector<double>(names_.size())};
  for (const MetricSample& metric : samples) {
    const std::string name =
        metric.labels.empty() ? metric.name : metric.name + "{" + metric.labels + "}";
    auto wanted = std::ranges::find(names_, name);
    if (wanted != names_.end()) sample.values[wanted - names_.begin()] = metric.value;
  }
  std::lock_guard lock(mutex_);
  if (ring_.size() < samples_max_) {
    ring_.push_back(std::move(sample));
    return;
  }
  ring_[oldest_] = std::move(sample);
  oldest_ = (oldest_ + 1) % samples_max_;
}

MetricHistory::View MetricHistory::view() const {
  View view{.at = {}, .values = std::vector<std::vector<double>>(names_.size())};
  std::lock_guard lock(mutex_);
  view.at.reserve(ring_.size());
  for (size_t i = 0; i < ring_.size(); ++i) {
    const Sample& sample = ring_[(oldest_ + i) % ring_.size()];
    view.at.push_back(sample.at);
    for (size_t name = 0; name < names_.size(); ++name) {
      view.values[name].push_back(sample.values[name]);
    }
  }
  return view;
}

}  // namespace leat
