// SPDX-License-Identifier: Apache-2.0
// DaemonMetrics: what the process is and uses, under the names that Prometheus's own clients give
// it. For the life of a daemon.
#pragma once

#include <cstdint>

#include "telemetry/metrics.h"

namespace leat {

class DaemonMetrics {
 public:
  // `restarts`: daemons of its supervisor before this one.
  explicit DaemonMetrics(uint64_t restarts);

 private:
  const Gauge build_, restarts_, start_time_, cpu_seconds_, resident_bytes_, open_files_,
      open_files_max_;
};

}  // namespace leat
