// SPDX-License-Identifier: Apache-2.0
// DaemonHistory: the daemon's own last hour, sampled every few seconds, as the console's charts and
// `leat top` begin with it. Ends with the daemon. Thread-safe.
#pragma once

#include "doors/admin/host.h"
#include "telemetry/metric_history.h"

namespace leat {

class DaemonHistory {
 public:
  // An hour in such steps: 721 samples of 13 values, 90 KiB with their vectors.
  static constexpr auto kStep = std::chrono::seconds(5);

  DaemonHistory();

  // Reads the counters and gauges that it keeps; about a millisecond.
  void note();
  HistoryView view() const;

 private:
  MetricHistory metrics_;
};

}  // namespace leat
