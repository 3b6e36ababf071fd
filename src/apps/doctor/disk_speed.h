// SPDX-License-Identifier: Apache-2.0
// How fast the disk below a cache directory is, past what the kernel remembers of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "apps/doctor/finding.h"

namespace leat {

struct DiskSpeed {
  double write_bytes_per_second = 0;  // of 1 MiB each, until they are on the disk
  double read_bytes_per_second = 0;
  std::chrono::duration<double> small_read{};  // of 4 KiB somewhere, the median
};

// Writes and reads up to 64 MiB of `fd`, an empty file of no name, for about two seconds. Nothing
// where the file system gives no way past the page cache, or fails. Blocks.
std::optional<DiskSpeed> measure_disk(int fd);

Finding speed_finding(const std::string& directory, const DiskSpeed& speed);

}  // namespace leat
