// SPDX-License-Identifier: Apache-2.0
#include "vfs/mount_metrics.h"

namespace leat {
namespace {

const MetricFamily kReads(MetricType::kCounter, "leat_vfs_reads_total",
                          "Reads of open files; passthrough reads of the kernel are not included",
                          "folder,path");
const MetricFamily kBytes(MetricType::kCounter, "leat_vfs_read_bytes_total",
                          "Bytes returned by reads of open files", "folder");
const MetricFamily kErrors(MetricType::kCounter, "leat_vfs_read_errors_total",
                           "Reads of open files that failed", "folder");
const MetricFamily kSeconds(MetricType::kHistogram, "leat_vfs_read_seconds",
                            "Duration of reads of open files that were not answered inline",
                            "folder,path");

std::string labels(const std::string& folder, const char* answered = nullptr) {
  std::string all = metric_label("folder", folder);
  if (answered != nullptr) all += "," + metric_label("path", answered);
  return all;
}

}  // namespace

MountMetrics::MountMetrics(const std::string& folder)
    : inline_reads(kReads, labels(folder, "inline")),
      from_disk(kReads, labels(folder, "from_disk")),
      from_store(kReads, labels(folder, "from_store")),
      from_local_file(kReads, labels(folder, "from_local_file")),
      bytes(kBytes, labels(folder)),
      errors(kErrors, labels(folder)),
      disk_seconds(kSeconds, labels(folder, "from_disk")),
      store_seconds(kSeconds, labels(folder, "from_store")) {}

}  // namespace leat
