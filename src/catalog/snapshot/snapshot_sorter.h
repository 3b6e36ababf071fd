// SPDX-License-Identifier: Apache-2.0
// SnapshotSorter: sorts entries by path in bounded memory; sorted runs on disk are merged. Not
// thread-safe; blocks.
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
  // Runs are unlinked files in `folder`.
  SnapshotSorter(std::string folder, uint64_t memory_bytes);
  ~SnapshotSorter();

  Result<> add(const SnapshotEntry& entry);
  // No add() afterwards.
  Result<> finish();
  // Returns the next entry; of equal paths directories first, then in the order of their addition.
  // Returns nothing at the end.
  Result<std::optional<SnapshotEntry>> next();

 private:
  class Run;

  Result<> spill();
  std::vector<uint64_t> sorted_offsets() const;

  const std::string folder_;
  const uint64_t memory_bytes_;
  std::string encoded_;            // entries in the form of append_entry, with nothing shared
  std::vector<uint64_t> offsets_;  // of each entry in it
  std::vector<std::unique_ptr<Run>> runs_;
  // The runs that are not at their end, as a heap; the one with the next entry is first.
  std::vector<Run*> heap_;
};

}  // namespace leat
