// SPDX-License-Identifier: Apache-2.0
// ListedDirectory: an open directory with a fixed listing.
#pragma once

#include <utility>

#include "vfs/file_system.h"

namespace leat {

class ListedDirectory : public OpenDirectory {
 public:
  ListedDirectory(NodeId node, ListingPtr listing, Clock::duration valid_for)
      : node_(node), listing_(std::move(listing)), valid_for_(valid_for) {}

  Listing::Cursor from(uint64_t cookie) const override { return listing_->from(cookie); }
  Listing::Cursor after(std::string_view name) const override { return listing_->after(name); }
  NodeId node() const override { return node_; }
  Clock::duration valid_for() const override { return valid_for_; }
  const ListingPtr& listing() const override { return listing_; }
  bool is_latest() const override { return ::leat::is_latest(listing_->mount().get()); }

 private:
  const NodeId node_;
  const ListingPtr listing_;
  const Clock::duration valid_for_;
};

}  // namespace leat
