// SPDX-License-Identifier: Apache-2.0
// MountMetrics: counts the reads of one mount by source. One for each FileSystem.
#pragma once

#include <string>

#include "telemetry/metrics.h"

namespace leat {

struct MountMetrics {
  explicit MountMetrics(const std::string& folder);

  // Reads by source; inline_reads: without waiting.
  Counter inline_reads, from_disk, from_store, from_local_file;
  Counter bytes, errors;
  // Durations of reads that waited.
  Histogram disk_seconds, store_seconds;
};

}  // namespace leat
