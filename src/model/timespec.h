// SPDX-License-Identifier: Apache-2.0
// WallTime to and from the kernel's form of a time.
#pragma once

#include <ctime>

#include "model/file_info.h"

namespace leat {

inline timespec to_timespec(WallTime time) {
  const auto since_epoch = time.time_since_epoch();
  const auto whole = std::chrono::floor<std::chrono::seconds>(since_epoch);
  return {.tv_sec = whole.count(), .tv_nsec = (since_epoch - whole).count()};
}

inline WallTime to_wall_time(const timespec& time) {
  return WallTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

}  // namespace leat
