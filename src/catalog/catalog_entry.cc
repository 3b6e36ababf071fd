// SPDX-License-Identifier: Apache-2.0
#include "catalog/catalog_entry.h"

namespace leat {

MountPtr MountLine::begin(Mount mount) {
  mount.line = std::make_shared<MountLine>();
  mount.number = 0;
  MountLine& line = *mount.line;
  auto first = std::make_shared<const Mount>(std::move(mount));
  std::lock_guard lock(line.mutex_);
  line.newest_ = first;
  return first;
}

MountPtr MountLine::go_on(const Mount& before, Mount after) {
  after.line = before.line;
  after.number = before.number + 1;
  auto next = std::make_shared<const Mount>(std::move(after));
  if (!next->line) return next;
  MountLine& line = *next->line;
  std::lock_guard lock(line.mutex_);
  line.newest_ = next;
  line.number_.store(next->number, std::memory_order_release);
  return next;
}

MountPtr MountLine::newest() const {
  std::lock_guard lock(mutex_);
  return newest_.lock();
}

bool is_newest(const Mount* mount) {
  return mount == nullptr || !mount->line || mount->number == mount->line->newest_number();
}

MountPtr newest(const MountPtr& mount) {
  if (is_newest(mount.get())) return mount;
  MountPtr newest = mount->line->newest();
  return newest ? newest : mount;
}

}  // namespace leat
