// SPDX-License-Identifier: Apache-2.0
// GatheredChanges: what of changes is told together. Bounded: of too many objects only the
// directories that they are in are named, and of too many of those nothing but that anything,
// anywhere, may be another. Not thread-safe.
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
  // All since the last time.
  std::vector<PeerChange> take();
  bool empty() const { return changes_.empty(); }

 private:
  using Place = std::pair<std::string, std::string>;  // mount, key

  void name_directories();

  const size_t max_;
  std::vector<PeerChange> changes_;
  std::set<Place> directories_;  // those in changes_, once only they are named
  bool coarse_ = false;          // only they are
  bool all_ = false;             // anything, anywhere
};

}  // namespace leat
