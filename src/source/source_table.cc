// SPDX-License-Identifier: Apache-2.0
#include "source/source_table.h"

#include <algorithm>

#include "base/check.h"

namespace leat {

void SourceTable::add(SourcePtr source) {
  LEAT_CHECK(source != nullptr);
  std::lock_guard lock(mutex_);
  std::vector<SourcePtr>& all = sources_[source->id()];
  all.push_back(std::move(source));
}

void SourceTable::remove(const SourcePtr& source) {
  SourcePtr removed;  // destroyed after the lock is released: closing a store may take a while
  std::lock_guard lock(mutex_);
  auto found = sources_.find(source->id());
  LEAT_CHECK(found != sources_.end());
  std::vector<SourcePtr>& all = found->second;
  auto last = std::ranges::find(all.rbegin(), all.rend(), source);
  LEAT_CHECK(last != all.rend());
  removed = std::move(*last);
  all.erase(std::prev(last.base()));
  if (all.empty()) sources_.erase(found);
}

SourcePtr SourceTable::find(const StoreId& id) const {
  std::lock_guard lock(mutex_);
  auto found = sources_.find(id);
  return found == sources_.end() ? nullptr : found->second.back();
}

}  // namespace leat
