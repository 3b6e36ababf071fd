// SPDX-License-Identifier: Apache-2.0
#include "catalog/catalog_entry.h"

namespace leat {

MountPtr MountHistory::begin(Mount mount) {
  mount.history = std::make_shared<MountHistory>();
  mount.number = 0;
  MountHistory& history = *mount.history;
  auto first = std::make_shared<const Mount>(std::move(mount));
  std::lock_guard lock(history.mutex_);
  history.latest_ = first;
  return first;
}

MountPtr MountHistory::append(const Mount& before, Mount after) {
  after.history = before.history;
  after.number = before.number + 1;
  auto next = std::make_shared<const Mount>(std::move(after));
  if (!next->history) return next;
  MountHistory& history = *next->history;
  std::lock_guard lock(history.mutex_);
  history.latest_ = next;
  history.number_.store(next->number, std::memory_order_release);
  return next;
}

MountPtr MountHistory::latest() const {
  std::lock_guard lock(mutex_);
  return latest_.lock();
}

bool is_latest(const Mount* mount) {
  return mount == nullptr || !mount->history || mount->number == mount->history->latest_number();
}

MountPtr latest(const MountPtr& mount) {
  if (is_latest(mount.get())) return mount;
  MountPtr latest = mount->history->latest();
  return latest ? latest : mount;
}

}  // namespace leat
