// SPDX-License-Identifier: Apache-2.0
// SourceTable: the sources of all mounts by StoreId, so that a FileRef is enough to find its store.
// Thread-safe.
#pragma once

#include <map>
#include <mutex>

#include "source/source.h"

namespace leat {

class SourceTable {
 public:
  // Mounts of one bucket share an entry, which lives until as many removes as adds have come. The
  // newest source of an id answers from now on.
  void add(SourcePtr source);
  void remove(const StoreId& id);
  // Null when no mount uses it.
  SourcePtr find(const StoreId& id) const;

 private:
  struct Entry {
    SourcePtr source;
    int uses = 0;
  };
  mutable std::mutex mutex_;
  std::map<StoreId, Entry> entries_;
};

}  // namespace leat
