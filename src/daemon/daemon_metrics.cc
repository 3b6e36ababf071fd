// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon_metrics.h"

#include <chrono>

#include "base/program_version.h"
#include "daemon/process_usage.h"

namespace leat {
namespace {

const MetricFamily kBuild(MetricType::kGauge, "leat_build_info", "1; the label is the version",
                          "version");
const MetricFamily kRestarts(MetricType::kGauge, "leat_daemon_restarts",
                             "Daemons before this one since the supervisor started");
const MetricFamily kStartTime(MetricType::kGauge, "process_start_time_seconds",
                              "When the daemon started, in seconds since the epoch");
const MetricFamily kCpu(MetricType::kCounter, "process_cpu_seconds_total",
                        "Processor time of the daemon, user and system");
const MetricFamily kResident(MetricType::kGauge, "process_resident_memory_bytes",
                             "Resident memory of the daemon");
const MetricFamily kOpenFiles(MetricType::kGauge, "process_open_fds",
                              "Open file descriptors of the daemon");
const MetricFamily kOpenFilesMax(MetricType::kGauge, "process_max_fds",
                                 "Most file descriptors that the daemon may have");

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

DaemonMetrics::DaemonMetrics(uint64_t restarts)
    : build_(
          kBuild, [] { return 1.0; }, metric_label("version", program_version())),
      restarts_(kRestarts, [restarts] { return static_cast<double>(restarts); }),
      start_time_(kStartTime, [started = now_seconds()] { return started; }),
      cpu_seconds_(kCpu, [] { return process_cpu_seconds(); }),
      resident_bytes_(kResident, [] { return static_cast<double>(process_usage().rss_bytes); }),
      open_files_(kOpenFiles, [] { return static_cast<double>(process_usage().open_files); }),
      open_files_max_(kOpenFilesMax,
                      [] { return static_cast<double>(process_usage().open_files_max); }) {}

}  // namespace leat
