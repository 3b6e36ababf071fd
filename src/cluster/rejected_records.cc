// SPDX-License-Identifier: Apache-2.0
#include "cluster/rejected_records.h"

#include <algorithm>

#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

const MetricFamily rejected_family(
    MetricType::kCounter, "leat_cluster_rejected_records_total",
    "Registry records rejected because their signature is missing or invalid", "reason");
Counter rejected_unsigned(rejected_family, R"(reason="unsigned")");
Counter rejected_unknown_key(rejected_family, R"(reason="unknown_key")");
Counter rejected_forged(rejected_family, R"(reason="forged")");

Counter& counter_of(RecordFault fault) {
  if (fault == RecordFault::kUnsigned) return rejected_unsigned;
  return fault == RecordFault::kUnknownKey ? rejected_unknown_key : rejected_forged;
}

// Keys and values may come from strangers.
std::string printable(std::string_view key) {
  std::string text(key.substr(0, 200));
  for (char& byte : text) {
    if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) byte = '?';
  }
  return text;
}

}  // namespace

void RejectedRecords::reject(const RegistryEntry& entry, RecordFault fault) {
  {
    std::lock_guard lock(mutex_);
    auto found = records_.find(entry.key);
    if (found != records_.end() && found->second.changed == entry.changed &&
        found->second.fault == fault) {
      return;
    }
    if (found != records_.end()) {
      found->second = {entry.key, fault, entry.changed};
    } else if (records_.size() < kStoredMax) {
      records_[entry.key] = {entry.key, fault, entry.changed};
    }
    counter_of(fault).add();
    if (!may_log()) return;
  }
  log::warning("audit: the registry's record {} of revision {} is ignored: {}; {}",
               printable(entry.key), entry.changed, to_string(fault),
               fault == RecordFault::kUnknownKey
                   ? "compare this worker's cluster.secret_file with the other workers'"
                   : "find out who writes to etcd besides the workers, or mount again what is "
                     "wanted");
}

void RejectedRecords::accept(std::string_view key) {
  std::lock_guard lock(mutex_);
  if (auto found = records_.find(key); found != records_.end()) records_.erase(found);
}

void RejectedRecords::keep_only(std::string_view prefix,
                                const std::vector<RegistryEntry>& entries) {
  std::lock_guard lock(mutex_);
  for (auto at = records_.lower_bound(prefix);
       at != records_.end() && at->first.starts_with(prefix);) {
    const bool there = std::ranges::binary_search(entries, at->first, {}, &RegistryEntry::key);
    at = there ? std::next(at) : records_.erase(at);
  }
}

std::vector<RejectedRecord> RejectedRecords::all() const {
  std::lock_guard lock(mutex_);
  std::vector<RejectedRecord> all;
  for (const auto& [key, record] : records_) all.push_back(record);
  return all;
}

bool RejectedRecords::may_log() {
  const Clock::time_point now = Clock::now();
  if (now - minute_began_ >= std::chrono::minutes(1)) {
    if (lines_ > kLinesPerMinute) {
      log::warning("audit: {} more of the registry's records were ignored",
                   lines_ - kLinesPerMinute);
    }
    minute_began_ = now;
    lines_ = 0;
  }
  return ++lines_ <= kLinesPerMinute;
}

}  // namespace leat
