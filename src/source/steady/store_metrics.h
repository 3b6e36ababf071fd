// SPDX-License-Identifier: Apache-2.0
// StoreMetrics: metrics of the attempts at one store. One per SteadySource.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "runtime/context.h"
#include "telemetry/metrics.h"

namespace leat {

class StoreMetrics {
 public:
  // `labels`: the store's.
  explicit StoreMetrics(const std::string& labels);

  // `verb`: "stat", "list", "read"; others count as changes. `bytes`: of a successful read.
  void attempt(std::string_view verb, Clock::duration took, const Status* failure, uint64_t bytes);

 private:
  Histogram stat_, list_, read_, change_;
  Counter read_bytes_, throttled_, failed_;
};

}  // namespace leat
