// SPDX-License-Identifier: Apache-2.0
// The speed of the disk below a cache directory, without the page cache.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "doctor/finding.h"

namespace leat {

struct DiskSpeed {
  double write_bytes_per_second = 0;  // writes of 1 MiB each, until they are durable
  double read_bytes_per_second = 0;
  std::chrono::duration<double> small_read{};  // reads of 4 KiB at random offsets, median
};

// Writes and reads up to 64 MiB of `fd`, an empty unnamed file, for about two seconds. Returns
// nothing if the file system does not support O_DIRECT, or fails. Blocks.
std::optional<DiskSpeed> measure_disk(int fd);

Finding speed_finding(const std::string& directory, const DiskSpeed& speed);

}  // namespace leat
