// SPDX-License-Identifier: Apache-2.0
// RefreshResult: differences that a refresh found.
#include <algorithm>
#include <utility>

#include "catalog/catalog.h"

namespace leat {

std::string_view to_string(NamedChange::Kind kind) {
  switch (kind) {
    case NamedChange::Kind::kAdded:
      return "added";
    case NamedChange::Kind::kRemoved:
      return "removed";
    case NamedChange::Kind::kChanged:
      break;
  }
  return "changed";
}

void RefreshResult::add(const RefreshResult& more) {
  added += more.added;
  changed += more.changed;
  removed += more.removed;
  const size_t taken = std::min(more.first.size(), kNamedMax - first.size());
  first.insert(first.end(), more.first.begin(), more.first.begin() + static_cast<long>(taken));
}

void RefreshResult::note(NamedChange change) {
  using Kind = NamedChange::Kind;
  ++(change.kind == Kind::kAdded ? added : change.kind == Kind::kRemoved ? removed : changed);
  if (first.size() < kNamedMax) first.push_back(std::move(change));
}

}  // namespace leat
