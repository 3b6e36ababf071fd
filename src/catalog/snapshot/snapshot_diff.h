// SPDX-License-Identifier: Apache-2.0
// How two snapshots differ, found by going over both at once: no memory, whatever their size.
#pragma once

#include <functional>
#include <string_view>

#include "catalog/snapshot/snapshot.h"

namespace leat {

struct SnapshotDifference {
  enum class Kind : uint8_t { kAdded, kRemoved, kChanged };

  Kind kind;
  std::string_view path;        // below the compared directories
  const SnapshotEntry* before;  // null for what was added
  const SnapshotEntry* after;   // null for what was removed
};
// What it is given lives for the call. False: enough.
using SnapshotDifferenceListener = std::function<bool(const SnapshotDifference&)>;

// Files whose version or size differ have changed (without versions: whose time does), and so has
// what turned from file to directory or back. In the order of compare_paths. A directory that one
// of them does not have is as an empty one. Takes as long as reading both.
void diff_snapshots(const Snapshot& before, const Snapshot& after,
                    const SnapshotDifferenceListener& listener,
                    std::string_view before_directory = "", std::string_view after_directory = "");

}  // namespace leat
