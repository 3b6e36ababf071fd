// SPDX-License-Identifier: Apache-2.0
// Listing: the names of a directory at one moment, sorted by their bytes, made into entries as they
// are asked for: what the store's listing or a snapshot says, and over it what was learnt since and
// what is mounted. Immutable and thread-safe; holds on to what it was made of.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "catalog/catalog_entry.h"
#include "catalog/name_table.h"

namespace leat {

class Listing {
 public:
  // An entry that stands in place of what the table has of its name; or nothing does.
  struct Over {
    CatalogEntry entry;
    bool shown = true;
  };
  struct Parts {
    NameTablePtr names = {};  // may be null
    // Of the table's entries.
    MountPtr mount = {};
    std::string key = {};  // of the directory
    Clock::time_point names_fresh_until = {};
    std::vector<Over> over = {};  // sorted by name, each name once
    Clock::time_point fresh_until = {};
    uint64_t left_out = 0;
  };

  explicit Listing(Parts parts) : parts_(std::move(parts)) {}
  // Of these alone, sorted by name.
  static std::shared_ptr<const Listing> of(std::vector<CatalogEntry> entries,
                                           Clock::time_point fresh_until, uint64_t left_out = 0);

  Clock::time_point fresh_until() const { return parts_.fresh_until; }
  // Whose the names are; null above all mounts.
  const MountPtr& mount() const { return parts_.mount; }
  // Keys that the store has here and that cannot be shown as names, or not be addressed.
  uint64_t left_out() const { return parts_.left_out; }
  // One of them, as the store writes it; empty where none is known.
  std::string_view left_out_example() const {
    return parts_.names ? parts_.names->left_out_example() : std::string_view();
  }
  // How many names there are, and perhaps more.
  uint64_t size_hint() const;

  // Goes over the entries; the listing outlives it. For one user.
  class Cursor {
   public:
    // To the next entry; false at the end.
    bool next();
    // Of the entry that next() went to, until it is called again.
    const NameView& view() const { return view_; }
    CatalogEntry entry() const;
    // Where the entry after it is: from() goes on there. Below 2^62; never changes in one listing.
    uint64_t position() const;

   private:
    friend class Listing;
    Cursor(const Listing& listing, std::unique_ptr<NameTable::Cursor> names, size_t over);
    void look_ahead();

    const Listing::Parts* parts_;
    std::unique_ptr<NameTable::Cursor> names_;  // null without a table
    size_t over_;                               // the next of them
    uint64_t ahead_at_ = 0;  // position of the table's name that was looked at ahead
    bool ahead_ = false;     // there is one that was not shown yet
    bool from_over_ = false;
    NameView view_;
  };
  // 0: the beginning. Any number may be given; one that is no position is somewhere.
  Cursor from(uint64_t position) const;
  // At the first entry whose name is greater.
  Cursor after(std::string_view name) const;

 private:
  const Parts parts_;
};
using ListingPtr = std::shared_ptr<const Listing>;

}  // namespace leat
