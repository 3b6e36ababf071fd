// SPDX-License-Identifier: Apache-2.0
// SourceTable: the sources of all mounts by StoreId, so that a FileRef is enough to find its store.
// Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "source/source.h"

namespace leat {

class SourceTable {
 public:
  // Of several sources of one id the one that was added last answers; when it is removed, the one
  // before it does again. The same source may be added more than once.
  void add(SourcePtr source);
  // Takes back one add of `source`.
  void remove(const SourcePtr& source);
  // Null when no mount uses it.
  SourcePtr find(const StoreId& id) const;

 private:
  mutable std::mutex mutex_;
  std::map<StoreId, std::vector<SourcePtr>> sources_;  // never empty; in the order of the adds
};

}  // namespace leat
