// SPDX-License-Identifier: Apache-2.0
#include "peer/invalidation/invalidation_batch.h"

#include <utility>

namespace leat {
namespace {

// Receivers of an object's change list its parent directory, so that may replace the object.
Invalidation directory_of(Invalidation item) {
  if (item.kind != Invalidation::Kind::kObject) return item;
  item.kind = Invalidation::Kind::kDirectory;
  if (item.key.ends_with('/')) item.key.pop_back();
  item.key.resize(item.key.rfind('/') + 1);  // 0 if there is none
  return item;
}

}  // namespace

void InvalidationBatch::add(Invalidation item) {
  if (all_) return;
  if (!coarse_ && items_.size() == max_) coarsen();
  if (coarse_) item = directory_of(std::move(item));
  if (coarse_ && item.kind == Invalidation::Kind::kDirectory &&
      !directories_.emplace(item.mount, item.key).second) {
    return;
  }
  if (items_.size() == max_) {
    all_ = true;
    items_ = {Invalidation{.mount = "/", .key = ""}};
    directories_.clear();
    return;
  }
  items_.push_back(std::move(item));
}

void InvalidationBatch::coarsen() {
  coarse_ = true;
  for (Invalidation& item : std::exchange(items_, {})) add(std::move(item));
}

std::vector<Invalidation> InvalidationBatch::take() {
  coarse_ = all_ = false;
  directories_.clear();
  return std::exchange(items_, {});
}

}  // namespace leat
