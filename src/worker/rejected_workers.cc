// SPDX-License-Identifier: Apache-2.0
#include "worker/rejected_workers.h"

#include <algorithm>

#include "cluster/cluster_records.h"

namespace leat {
namespace {

constexpr size_t kShownMax = 100;

}  // namespace

std::vector<WorkerId> rejected_workers(const std::vector<RejectedRecord>& records) {
  std::vector<WorkerId> workers;
  for (const RejectedRecord& record : records) {
    if (record.fault != RecordFault::kUnknownKey || !record.key.starts_with(kWorkerKeys)) continue;
    const auto id = Id128::from_hex(record.key.substr(kWorkerKeys.size()));
    if (id && workers.size() < kShownMax) workers.emplace_back(*id);
  }
  return workers;
}

std::optional<Status> secret_trouble(const std::vector<RejectedRecord>& records) {
  const bool others_lead = std::ranges::any_of(records, [](const RejectedRecord& record) {
    return record.key == kLeaderKey && record.fault == RecordFault::kUnknownKey;
  });
  if (!others_lead) return std::nullopt;
  return Status(StatusCode::kPermissionDenied,
                "the workers that lead this cluster have another secret: copy the file that "
                "cluster.secret_file names from one of them");
}

}  // namespace leat
