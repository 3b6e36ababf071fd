// SPDX-License-Identifier: Apache-2.0
// StoreMetrics: durations of the attempts at one store. One per RetryingSource.
#pragma once

#include <string>
#include <string_view>

#include "runtime/context.h"
#include "telemetry/metrics.h"

namespace leat {

class StoreMetrics {
 public:
  // `labels`: the store's.
  explicit StoreMetrics(const std::string& labels);

  // `verb`: "stat", "list", "read"; others count as changes.
  void attempt(std::string_view verb, Clock::duration took);

 private:
  Histogram stat_, list_, read_, change_;
};

}  // namespace leat
