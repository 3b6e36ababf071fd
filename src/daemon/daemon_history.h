// SPDX-License-Identifier: Apache-2.0
// DaemonHistory: the daemon's last hour, sampled every few seconds, for the start of the console's
// charts and of `leat top`. Lost with the daemon. Thread-safe.
#pragma once

#include "frontends/admin/daemon_api.h"
#include "telemetry/metric_history.h"

namespace leat {

class DaemonHistory {
 public:
  // Step of an hour's history: 721 samples of 13 values, 90 KiB with their vectors.
  static constexpr auto kStep = std::chrono::seconds(5);

  DaemonHistory();

  // Samples its counters and gauges; takes about a millisecond.
  void sample();
  HistoryView view() const;

 private:
  MetricHistory metrics_;
};

}  // namespace leat
