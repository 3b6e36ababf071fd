// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/tree_sums.h"

#include <deque>
#include <utility>

namespace leat {

// Breadth first, so that the bound cuts off deep levels and not all but the first child.
TreeSum TreeSums::of(std::string directory, uint64_t names_max) const {
  TreeSum sum;
  std::deque<std::string> directories;
  directories.push_back(std::move(directory));
  uint64_t names = 0;
  while (!directories.empty()) {
    const std::string path = std::move(directories.front());
    directories.pop_front();
    const ListingPtr listing = catalog_.last_list(path);
    if (!listing) {
      sum.partial = true;
      continue;
    }
    Listing::Cursor cursor = listing->from(0);
    while (cursor.next()) {
      if (++names > names_max) {
        sum.partial = true;
        return sum;
      }
      const CatalogEntry entry = cursor.entry();
      if (entry.info.is_directory()) {
        directories.push_back(path == "/" ? "/" + entry.info.name : path + "/" + entry.info.name);
        continue;
      }
      ++sum.files;
      sum.bytes += entry.info.size;
      if (store_ != nullptr && entry.ref) sum.cached_bytes += store_->cached_bytes(*entry.ref);
    }
  }
  return sum;
}

}  // namespace leat
