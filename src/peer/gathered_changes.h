// SPDX-License-Identifier: Apache-2.0
// GatheredChanges: a bounded batch of invalidations. Too many objects are reduced to their
// directories; too many directories to one change for "all mounts". Not thread-safe.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "peer/changes.h"

namespace leat {

class GatheredChanges {
 public:
  explicit GatheredChanges(size_t changes_max) : max_(changes_max) {}

  void add(PeerChange change);
  // Returns all changes since the last call.
  std::vector<PeerChange> take();
  bool empty() const { return changes_.empty(); }

 private:
  using Place = std::pair<std::string, std::string>;  // mount, key

  void name_directories();

  const size_t max_;
  std::vector<PeerChange> changes_;
  std::set<Place> directories_;  // those in changes_; used once coarse_ is set
  bool coarse_ = false;          // only directories are recorded
  bool all_ = false;             // everything may have changed
};

}  // namespace leat
