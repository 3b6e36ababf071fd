// SPDX-License-Identifier: Apache-2.0
#include "source/source_table.h"

#include "base/check.h"

namespace leat {

void SourceTable::add(SourcePtr source) {
  LEAT_CHECK(source != nullptr);
  SourcePtr replaced;  // destroyed after the lock: closing a store may take a while
  std::lock_guard lock(mutex_);
  Entry& entry = entries_[source->id()];
  replaced = std::exchange(entry.source, std::move(source));
  ++entry.uses;
}

void SourceTable::remove(const StoreId& id) {
  SourcePtr last;
  std::lock_guard lock(mutex_);
  auto found = entries_.find(id);
  LEAT_CHECK(found != entries_.end());
  if (--found->second.uses > 0) return;
  last = std::move(found->second.source);
  entries_.erase(found);
}

SourcePtr SourceTable::find(const StoreId& id) const {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second.source;
}

}  // namespace leat
