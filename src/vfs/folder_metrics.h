// SPDX-License-Identifier: Apache-2.0
// FolderMetrics: counts the reads of one folder by source. One for each FileSystem.
#pragma once

#include <string>

#include "telemetry/metrics.h"

namespace leat {

struct FolderMetrics {
  explicit FolderMetrics(const std::string& folder);

  // Reads by source; in_place: without waiting.
  Counter in_place, from_disk, from_store, from_local_file;
  Counter bytes, errors;
  // Durations of reads that waited.
  Histogram disk_seconds, store_seconds;
};

}  // namespace leat
