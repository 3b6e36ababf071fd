// SPDX-License-Identifier: Apache-2.0
// own_cpu_seconds: what all threads of this process have used, in the kernel as well.
#pragma once

#include <sys/resource.h>

inline double own_cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto in_seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return in_seconds(used.ru_utime) + in_seconds(used.ru_stime);
}
