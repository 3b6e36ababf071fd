// SPDX-License-Identifier: Apache-2.0
// DaemonMetrics: identity and resource use of the process, under the names of Prometheus's own
// clients. Lives as long as the daemon.
#pragma once

#include <cstdint>

#include "telemetry/metrics.h"

namespace leat {

class DaemonMetrics {
 public:
  // `restarts`: earlier daemons of its supervisor.
  explicit DaemonMetrics(uint64_t restarts);

 private:
  const Gauge build_, restarts_, start_time_, cpu_seconds_, resident_bytes_, open_files_,
      open_files_max_;
};

}  // namespace leat
