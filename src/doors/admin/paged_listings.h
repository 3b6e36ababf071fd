// SPDX-License-Identifier: Apache-2.0
// PagedListings: the listings that clients are just paging through, so that all pages of one are of
// one moment and the store is asked once. Thread-safe. Private to this room.
#pragma once

#include <deque>
#include <mutex>
#include <string>

#include "catalog/catalog.h"

namespace leat {

class PagedListings {
 public:
  // What a page of `path` was taken from within the last kKept, or null.
  ListingPtr find(const std::string& path);
  // Until kKept has passed without another page, or many others were kept.
  void keep(std::string path, ListingPtr listing);

 private:
  static constexpr auto kKept = std::chrono::seconds(30);
  static constexpr size_t kMost = 8;

  struct Kept {
    std::string path;
    ListingPtr listing;
    Clock::time_point until;
  };

  std::mutex mutex_;       // leaf
  std::deque<Kept> kept_;  // the oldest first
};

}  // namespace leat
