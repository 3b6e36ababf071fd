// SPDX-License-Identifier: Apache-2.0
#include "doors/admin/paged_listings.h"

namespace leat {

ListingPtr PagedListings::find(const std::string& path) {
  std::lock_guard lock(mutex_);
  std::erase_if(kept_, [](const Kept& kept) { return kept.until <= Clock::now(); });
  for (const Kept& kept : kept_) {
    if (kept.path == path) return kept.listing;
  }
  return nullptr;
}

void PagedListings::keep(std::string path, ListingPtr listing) {
  std::lock_guard lock(mutex_);
  std::erase_if(kept_, [&](const Kept& kept) { return kept.path == path; });
  kept_.push_back({std::move(path), std::move(listing), Clock::now() + kKept});
  if (kept_.size() > kMost) kept_.pop_front();
}

}  // namespace leat
