// SPDX-License-Identifier: Apache-2.0
// SourceTable: the sources of all mounts by StoreId, so that a FileRef suffices to find its store.
// Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "source/source.h"

namespace leat {

class SourceTable {
 public:
  // Adds a source. Among several sources of one id, find() returns the one that was added last;
  // after its removal, the one before it. A source may be added more than once.
  void add(SourcePtr source);
  // Undoes one add() of `source`.
  void remove(const SourcePtr& source);
  // Returns null if no mount uses it.
  SourcePtr find(const StoreId& id) const;

 private:
  mutable std::mutex mutex_;
  std::map<StoreId, std::vector<SourcePtr>> sources_;  // never empty; in order of the adds
};

}  // namespace leat
