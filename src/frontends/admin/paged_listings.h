// SPDX-License-Identifier: Apache-2.0
// PagedListings: keeps listings while clients page through them, so that all pages show one moment
// and the store is read once. Thread-safe. Private to this module.
#pragma once

#include <deque>
#include <mutex>
#include <string>

#include "catalog/catalog.h"

namespace leat {

class PagedListings {
 public:
  // Returns the listing of the last page of `path` within kTtl, or null.
  ListingPtr find(const std::string& path);
  // Keeps it for kTtl after its last page, or until kListingsMax newer ones are added.
  void add(std::string path, ListingPtr listing);

 private:
  static constexpr auto kTtl = std::chrono::seconds(30);
  static constexpr size_t kListingsMax = 8;

  struct Entry {
    std::string path;
    ListingPtr listing;
    Clock::time_point until;
  };

  std::mutex mutex_;           // leaf
  std::deque<Entry> entries_;  // the oldest first
};

}  // namespace leat
