// SPDX-License-Identifier: Apache-2.0
// InvalidationBatch: a bounded batch of invalidations. Too many objects are reduced to their
// directories; too many directories to one change for "all mounts". Not thread-safe.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "wire/invalidations.h"

namespace leat {

class InvalidationBatch {
 public:
  explicit InvalidationBatch(size_t items_max) : max_(items_max) {}

  void add(Invalidation item);
  // Returns all changes since the last call.
  std::vector<Invalidation> take();
  bool empty() const { return items_.empty(); }

 private:
  using DirectoryKey = std::pair<std::string, std::string>;  // mount, key

  void coarsen();

  const size_t max_;
  std::vector<Invalidation> items_;
  std::set<DirectoryKey> directories_;  // those in items_; used once coarse_ is set
  bool coarse_ = false;                 // only directories are recorded
  bool all_ = false;                    // everything may have changed
};

}  // namespace leat
