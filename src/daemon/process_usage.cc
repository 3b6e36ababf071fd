// SPDX-License-Identifier: Apache-2.0
#include "daemon/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "telemetry/log.h"

namespace leat {

ProcessUsage process_usage() {
  ProcessUsage usage{};
  std::ifstream memory("/proc/self/statm");
  uint64_t total_pages = 0, resident_pages = 0;
  if (memory >> total_pages >> resident_pages) {
    usage.rss_bytes = resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
  std::error_code failed;
  for (std::filesystem::directory_iterator fd("/proc/self/fd", failed), end; !failed && fd != end;
       fd.increment(failed)) {
    ++usage.open_files;
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) usage.open_files_max = limit.rlim_cur;
  return usage;
}

double process_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void raise_open_files_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) log::warning("cannot raise the limit of open files");
}

}  // namespace leat
