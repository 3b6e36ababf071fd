// SPDX-License-Identifier: Apache-2.0
#include "vfs/folder_metrics.h"

namespace leat {
namespace {

const MetricFamily kReads(MetricType::kCounter, "leat_vfs_reads_total",
                          "Reads of open files; what the kernel reads by itself is not among them",
                          "folder,answered");
const MetricFamily kBytes(MetricType::kCounter, "leat_vfs_read_bytes_total",
                          "Bytes that reads of open files returned", "folder");
const MetricFamily kErrors(MetricType::kCounter, "leat_vfs_read_errors_total",
                           "Reads of open files that failed", "folder");
const MetricFamily kSeconds(MetricType::kHistogram, "leat_vfs_read_seconds",
                            "How long reads of open files took that were not answered in place",
                            "folder,answered");

std::string labels(const std::string& folder, const char* answered = nullptr) {
  std::string all = metric_label("folder", folder);
  if (answered != nullptr) all += "," + metric_label("answered", answered);
  return all;
}

}  // namespace

FolderMetrics::FolderMetrics(const std::string& folder)
    : in_place(kReads, labels(folder, "in_place")),
      from_disk(kReads, labels(folder, "from_disk")),
      from_store(kReads, labels(folder, "from_store")),
      from_local_file(kReads, labels(folder, "from_local_file")),
      bytes(kBytes, labels(folder)),
      errors(kErrors, labels(folder)),
      disk_seconds(kSeconds, labels(folder, "from_disk")),
      store_seconds(kSeconds, labels(folder, "from_store")) {}

}  // namespace leat
