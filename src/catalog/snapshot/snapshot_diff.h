// SPDX-License-Identifier: Apache-2.0
// Differences of two snapshots, found by one merge of both, in constant memory.
#pragma once

#include <functional>
#include <string_view>

#include "catalog/snapshot/snapshot.h"

namespace leat {

struct SnapshotDifference {
  enum class Kind : uint8_t { kAdded, kRemoved, kChanged };

  Kind kind;
  std::string_view path;        // below the compared directories
  const SnapshotEntry* before;  // null if it was added
  const SnapshotEntry* after;   // null if it was removed
};
// Its argument is valid during the call. Returns false to stop.
using SnapshotDifferenceListener = std::function<bool(const SnapshotDifference&)>;

// Reports files with another version or size (without versions: another time), and paths that
// changed between file and directory. In the order of compare_paths. A directory missing in one of
// them counts as empty. Takes as long as reading both.
void diff_snapshots(const Snapshot& before, const Snapshot& after,
                    const SnapshotDifferenceListener& listener,
                    std::string_view before_directory = "", std::string_view after_directory = "");

}  // namespace leat
