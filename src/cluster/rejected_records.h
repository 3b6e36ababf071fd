// SPDX-License-Identifier: Apache-2.0
// RejectedRecords: registry entries hidden because of a bad signature. Writes one audit line for
// each change of such an entry, at most kLinesPerMinute a minute. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/registry.h"
#include "cluster/signed_record.h"
#include "runtime/context.h"

namespace leat {

class RejectedRecords {
 public:
  static constexpr unsigned kLinesPerMinute = 60;
  // Further ones are counted and hidden, but not stored.
  static constexpr size_t kStoredMax = 10'000;

  void reject(const RegistryEntry& entry, RecordFault fault);
  // The entry is valid now, or removed.
  void accept(std::string_view key);
  // Removes entries below `prefix` that are not in `entries` (sorted by key).
  void keep_only(std::string_view prefix, const std::vector<RegistryEntry>& entries);

  std::vector<RejectedRecord> all() const;

 private:
  // Requires the lock. Counts the line.
  bool may_log();

  mutable std::mutex mutex_;  // leaf
  std::map<std::string, RejectedRecord, std::less<>> records_;
  Clock::time_point minute_began_{};
  unsigned lines_ = 0;
};

}  // namespace leat
