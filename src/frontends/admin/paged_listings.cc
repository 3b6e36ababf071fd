// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/paged_listings.h"

namespace leat {

ListingPtr PagedListings::find(const std::string& path) {
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const Entry& entry) { return entry.until <= Clock::now(); });
  for (const Entry& entry : entries_) {
    if (entry.path == path) return entry.listing;
  }
  return nullptr;
}

void PagedListings::add(std::string path, ListingPtr listing) {
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.path == path; });
  entries_.push_back({std::move(path), std::move(listing), Clock::now() + kTtl});
  if (entries_.size() > kListingsMax) entries_.pop_front();
}

}  // namespace leat
