// SPDX-License-Identifier: Apache-2.0
// SnapshotSorter: entries in any order in, in the order of their paths out, in bounded memory: what
// does not fit is sorted into runs on disk that are merged. Not thread-safe; blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "catalog/snapshot/snapshot.h"

namespace leat {

class SnapshotSorter {
 public:
  // Runs are files without a name in `folder`.
  SnapshotSorter(std::string folder, uint64_t memory_bytes);
  ~SnapshotSorter();

  Result<> add(const SnapshotEntry& entry);
  // Nothing may be added afterwards.
  Result<> finish();
  // The next one; of equal paths directories first, then in the order of their coming. Nothing at
  // the end.
  Result<std::optional<SnapshotEntry>> next();

 private:
  class Run;

  Result<> spill();
  std::vector<uint64_t> sorted_offsets() const;

  const std::string folder_;
  const uint64_t memory_bytes_;
  std::string encoded_;            // entries as append_entry writes them, each by itself
  std::vector<uint64_t> offsets_;  // of each in it
  std::vector<std::unique_ptr<Run>> runs_;
  // The runs that are not at their end, the one with the next entry first (a heap).
  std::vector<Run*> heap_;
};

}  // namespace leat
