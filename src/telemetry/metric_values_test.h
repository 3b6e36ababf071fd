// SPDX-License-Identifier: Apache-2.0
// Reads metrics in tests of all modules.
#pragma once

#include <string_view>

#include "telemetry/metrics.h"

namespace leat::testing {

// Returns the value of the metric with this name and exactly these labels (`name="value"`), as a
// scrape shows it; -1 if there is none.
inline double metric(std::string_view name, std::string_view labels = "") {
  for (const MetricSample& sample : metrics_samples()) {
    if (sample.name == name && sample.labels == labels) return sample.value;
  }
  return -1;
}

}  // namespace leat::testing
