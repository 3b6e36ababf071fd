// SPDX-License-Identifier: Apache-2.0
// StoreMetrics: how the attempts at one store went. One for each SteadySource.
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
  // `labels`: of the store.
  explicit StoreMetrics(const std::string& labels);

  // `verb`: "stat", "list", "read"; others are changes. `bytes`: of a read that succeeded.
  void attempt(std::string_view verb, Clock::duration took, const Status* failure, uint64_t bytes);

 private:
  Histogram stat_, list_, read_, change_;
  Counter read_bytes_, throttled_, failed_;
};

}  // namespace leat
