// SPDX-License-Identifier: Apache-2.0
#include "peer/gathered_changes.h"

#include <utility>

namespace leat {
namespace {

// Receivers of an object's change list its parent directory, so that may replace the object.
PeerChange directory_of(PeerChange change) {
  if (change.kind != PeerChange::Kind::kObject) return change;
  change.kind = PeerChange::Kind::kDirectory;
  if (change.key.ends_with('/')) change.key.pop_back();
  change.key.resize(change.key.rfind('/') + 1);  // 0 if there is none
  return change;
}

}  // namespace

void GatheredChanges::add(PeerChange change) {
  if (all_) return;
  if (!coarse_ && changes_.size() == max_) name_directories();
  if (coarse_) change = directory_of(std::move(change));
  if (coarse_ && change.kind == PeerChange::Kind::kDirectory &&
      !directories_.emplace(change.mount, change.key).second) {
    return;
  }
  if (changes_.size() == max_) {
    all_ = true;
    changes_ = {PeerChange{.mount = "/", .key = ""}};
    directories_.clear();
    return;
  }
  changes_.push_back(std::move(change));
}

void GatheredChanges::name_directories() {
  coarse_ = true;
  for (PeerChange& change : std::exchange(changes_, {})) add(std::move(change));
}

std::vector<PeerChange> GatheredChanges::take() {
  coarse_ = all_ = false;
  directories_.clear();
  return std::exchange(changes_, {});
}

}  // namespace leat
