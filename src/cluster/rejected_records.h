// SPDX-License-Identifier: Apache-2.0
// RejectedRecords: which registry entries are hidden since their signature does not fit. Writes one
// audit line for each change of one, at most kLinesPerMinute a minute. Thread-safe.
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
  // More are counted and hidden as well, but not remembered.
  static constexpr size_t kRememberedMax = 10'000;

  void reject(const RegistryEntry& entry, RecordFault fault);
  // The entry is valid now, or gone.
  void accept(std::string_view key);
  // Of keys that begin with `prefix`, those that `entries` (sorted by key) lacks are gone.
  void keep_only(std::string_view prefix, const std::vector<RegistryEntry>& entries);

  std::vector<RejectedRecord> all() const;

 private:
  // Under the lock. Counts the line.
  bool may_log();

  mutable std::mutex mutex_;  // leaf
  std::map<std::string, RejectedRecord, std::less<>> records_;
  Clock::time_point minute_began_{};
  unsigned lines_ = 0;
};

}  // namespace leat
